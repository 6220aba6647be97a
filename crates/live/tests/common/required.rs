//! Whether live tests must run: where they cannot, they fail then, and are passed over otherwise.

/// `CI` is set, or `CWNDLAB_REQUIRE_LIVE` is 1.
pub(super) fn required() -> bool {
    std::env::var_os("CI").is_some() || std::env::var("CWNDLAB_REQUIRE_LIVE").is_ok_and(|value| value == "1")
}
