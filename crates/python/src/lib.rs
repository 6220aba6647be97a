//! The Python module `cwndlab._native`.
