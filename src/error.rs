//! One classification of every error, and its gRPC code and exit status.
//!
//! Modules keep their own typed errors; this table is the only place that
//! says what a caller may conclude from one.

/// What a caller may conclude from an error.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Kind {
    /// The request itself is wrong; repeating it cannot help.
    InvalidArgument,
    /// The named object does not exist.
    NotFound,
    /// The name is taken by something that differs from the request.
    AlreadyExists,
    /// The object or VG is in a state that forbids the operation.
    FailedPrecondition,
    /// Not enough free extents.
    ResourceExhausted,
    /// The size is outside of what the volume may have.
    OutOfRange,
    /// Another operation on the same object is under way; repeat later.
    Aborted,
    /// A lock or a device did not answer in time; repeat later.
    DeadlineExceeded,
    /// The machine refused or failed.
    Internal,
}

impl Kind {
    /// Every kind.
    const ALL: [Self; 9] = [
        Self::InvalidArgument,
        Self::NotFound,
        Self::AlreadyExists,
        Self::FailedPrecondition,
        Self::ResourceExhausted,
        Self::OutOfRange,
        Self::Aborted,
        Self::DeadlineExceeded,
        Self::Internal,
    ];

    /// The name of [`Self::code`], for metrics and objects.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::InvalidArgument => "InvalidArgument",
            Self::NotFound => "NotFound",
            Self::AlreadyExists => "AlreadyExists",
            Self::FailedPrecondition => "FailedPrecondition",
            Self::ResourceExhausted => "ResourceExhausted",
            Self::OutOfRange => "OutOfRange",
            Self::Aborted => "Aborted",
            Self::DeadlineExceeded => "DeadlineExceeded",
            Self::Internal => "Internal",
        }
    }

    /// The kind of this [word](Self::word).
    #[must_use]
    pub fn of_word(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.word() == word)
    }

    /// The gRPC status code.
    #[must_use]
    pub fn code(self) -> tonic::Code {
        match self {
            Self::InvalidArgument => tonic::Code::InvalidArgument,
            Self::NotFound => tonic::Code::NotFound,
            Self::AlreadyExists => tonic::Code::AlreadyExists,
            Self::FailedPrecondition => tonic::Code::FailedPrecondition,
            Self::ResourceExhausted => tonic::Code::ResourceExhausted,
            Self::OutOfRange => tonic::Code::OutOfRange,
            Self::Aborted => tonic::Code::Aborted,
            Self::DeadlineExceeded => tonic::Code::DeadlineExceeded,
            Self::Internal => tonic::Code::Internal,
        }
    }

    /// The exit status of the command line tool (1 is left to panics of the
    /// runtime, 2 to wrong usage).
    #[must_use]
    pub fn exit_status(self) -> u8 {
        match self {
            Self::InvalidArgument | Self::OutOfRange => 2,
            Self::NotFound => 3,
            Self::AlreadyExists => 4,
            Self::FailedPrecondition => 5,
            Self::ResourceExhausted => 6,
            Self::Aborted | Self::DeadlineExceeded => 7,
            Self::Internal => 8,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_the_codes_names_and_lead_back() {
        for kind in Kind::ALL {
            assert_eq!(kind.word(), format!("{:?}", kind.code()));
            assert_eq!(Kind::of_word(kind.word()), Some(kind));
        }
        assert_eq!(Kind::of_word("Ok"), None);
    }
}
