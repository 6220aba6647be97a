//! Capacity, responsiveness and smoothness of a link under load
