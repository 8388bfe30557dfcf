//! How the C library's allocator grows.

/// Lets all threads share this many arenas (glibc makes up to eight for each
/// CPU). Threads that wait for disks allocate little: more arenas would only hold
/// memory. Returns whether the allocator took it.
#[must_use]
pub fn limit_arenas(count: u8) -> bool {
    // SAFETY: mallopt(3) takes two integers; it is called before other threads
    // allocate or not, either is allowed.
    let taken = unsafe { libc::mallopt(libc::M_ARENA_MAX, i32::from(count)) };
    taken == 1
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_allocator_takes_it() {
        assert!(super::limit_arenas(2));
    }
}
