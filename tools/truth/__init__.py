"""The models beside what is known of real systems: recordings, and claims of publications."""
