//! Where new extents go.
