"""The files of a run: parts on disk, the catalogue over them, and the ResultSet that reads both."""
