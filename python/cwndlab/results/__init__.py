"""What a run leaves behind: parts on disk, the catalogue over them, and the ResultSet that reads both."""
