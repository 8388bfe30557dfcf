//! Arguments of the commands.

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};

use super::disk_args::{PvCommand, VgCommand};
use super::table::Format;
use super::units::Units;

/// The exit statuses, for the help of every command.
pub const EXIT_STATUSES: &str = "\
Exit status:
  0  done; of `check`: nothing found
  1  the program itself failed
  2  wrong usage, name, number or size
  3  no such VG, LV, PV or device
  4  the name is taken by something that differs
  5  the object's or VG's state forbids it (in use, missing PV, foreign, …);
     of `check`: there are findings
  6  not enough free extents
  7  a lock or a device did not answer in time; try again
  8  the machine refused or failed";

/// What a person on the node can do.
#[derive(Clone, Debug, Subcommand)]
pub enum Command {
    /// List physical volumes
    #[command(after_help = EXIT_STATUSES)]
    Pvs(PvsArgs),
    /// List volume groups
    #[command(after_help = EXIT_STATUSES)]
    Vgs(VgsArgs),
    /// List logical volumes
    #[command(after_help = EXIT_STATUSES)]
    Lvs(LvsArgs),
    /// Show what LVM2 has written to a device: label, metadata areas, texts
    ///
    /// Reads the device and nothing else, takes no lock, and works on devices
    /// whose VG cannot be used.
    #[command(after_help = EXIT_STATUSES)]
    Inspect(InspectArgs),
    /// Check metadata, what the kernel makes of it, and what is unfinished
    ///
    /// Every invariant of the metadata is checked; its copies are compared on
    /// the disks and in files, and the kernel's devices with what the metadata
    /// asks for. Without --repair nothing is changed.
    #[command(after_help = EXIT_STATUSES)]
    Check(CheckArgs),
    /// Make, resize and remove physical volumes
    #[command(subcommand, after_help = EXIT_STATUSES)]
    Pv(PvCommand),
    /// Make, extend, reduce and remove volume groups; show what they were
    #[command(subcommand, after_help = EXIT_STATUSES)]
    Vg(VgCommand),
    /// Make, change and remove logical volumes
    #[command(subcommand, after_help = EXIT_STATUSES)]
    Lv(LvCommand),
}

/// How to print.
#[derive(Clone, Copy, Debug, Args)]
pub struct OutputArgs {
    /// Form of the output
    #[arg(short, long, value_enum, default_value_t, value_name = "FORM")]
    pub output: Format,
}

/// How to print sizes.
#[derive(Clone, Copy, Debug, Args)]
pub struct UnitsArgs {
    /// Unit of sizes: r (with < before what was rounded up), h, b, s, k, m, g, t, p, e
    #[arg(long, default_value = "r", value_name = "UNIT")]
    pub units: Units,
}

/// Arguments of `pvs`.
#[derive(Clone, Debug, Args)]
pub struct PvsArgs {
    /// Only these PVs, by device
    #[arg(value_name = "DEVICE")]
    pub names: Vec<PathBuf>,
    /// List devices too that are not searched for PVs, with the reason
    #[arg(short, long)]
    pub all: bool,
    /// How to print sizes.
    #[command(flatten)]
    pub units: UnitsArgs,
    /// How to print.
    #[command(flatten)]
    pub output: OutputArgs,
}

/// Arguments of `vgs`.
#[derive(Clone, Debug, Args)]
pub struct VgsArgs {
    /// Only these VGs
    #[arg(value_name = "VG")]
    pub names: Vec<String>,
    /// How to print sizes.
    #[command(flatten)]
    pub units: UnitsArgs,
    /// How to print.
    #[command(flatten)]
    pub output: OutputArgs,
}

/// Arguments of `lvs`.
#[derive(Clone, Debug, Args)]
pub struct LvsArgs {
    /// Only these LVs, or those of these VGs
    #[arg(value_name = "VG[/LV]")]
    pub names: Vec<String>,
    /// List LVM2's internal LVs too, in brackets
    #[arg(short, long)]
    pub all: bool,
    /// How to print sizes.
    #[command(flatten)]
    pub units: UnitsArgs,
    /// How to print.
    #[command(flatten)]
    pub output: OutputArgs,
}

/// Arguments of `inspect`.
#[derive(Clone, Debug, Args)]
pub struct InspectArgs {
    /// The device
    #[arg(value_name = "DEVICE")]
    pub device: PathBuf,
    /// Print the metadata texts too
    #[arg(long)]
    pub text: bool,
    /// How to print.
    #[command(flatten)]
    pub output: OutputArgs,
}

/// Arguments of `check`.
#[derive(Clone, Debug, Args)]
pub struct CheckArgs {
    /// Only these VGs
    #[arg(value_name = "VG")]
    pub names: Vec<String>,
    /// Mend what is safe to mend, under the VG lock
    ///
    /// Says what was done, and what was left and why. The exit status is 0 if
    /// nothing was left.
    #[arg(long)]
    pub repair: bool,
    /// Say what --repair would do, and do nothing
    #[arg(long, requires = "repair")]
    pub dry_run: bool,
    /// How to print.
    #[command(flatten)]
    pub output: OutputArgs,
}

/// What can be done with LVs.
#[derive(Clone, Debug, Subcommand)]
pub enum LvCommand {
    /// Make an LV; one that exists as described is left alone
    #[command(after_help = EXIT_STATUSES)]
    Create(CreateArgs),
    /// Make an LV larger; what is on it is left as it is
    #[command(after_help = EXIT_STATUSES)]
    Extend(ExtendArgs),
    /// Deactivate and remove an LV and what is on it
    #[command(after_help = EXIT_STATUSES)]
    Remove(RemoveArgs),
    /// Give an LV another name
    #[command(after_help = EXIT_STATUSES)]
    Rename(RenameArgs),
    /// Make the device of an LV appear
    #[command(after_help = EXIT_STATUSES)]
    Activate(NameArgs),
    /// Make the device of an LV go away; fails while it is in use
    #[command(after_help = EXIT_STATUSES)]
    Deactivate(NameArgs),
}

/// Arguments of `vg history`.
#[derive(Clone, Debug, Args)]
pub struct HistoryArgs {
    /// The VG; it need not be on any disk any more
    #[arg(value_name = "VG")]
    pub vg: String,
    /// Print the version of this sequence number as a backup file
    #[arg(long, value_name = "SEQNO", conflicts_with = "diff")]
    pub show: Option<u32>,
    /// Print what changed from one version to another
    #[arg(long, value_names = ["SEQNO", "SEQNO"], num_args = 2)]
    pub diff: Option<Vec<u32>>,
    /// How to print.
    #[command(flatten)]
    pub output: OutputArgs,
}

/// Arguments of every change.
#[derive(Clone, Copy, Debug, Args)]
pub struct ChangeArgs {
    /// Print the metadata's difference and the steps, and change nothing
    #[arg(long)]
    pub dry_run: bool,
    /// How to print.
    #[command(flatten)]
    pub output: OutputArgs,
}

/// Where extents may lie.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum PolicyArg {
    /// Anywhere, the legs of a striped LV on different PVs
    Normal,
    /// In one run
    Contiguous,
    /// On the PVs that the LV already uses
    Cling,
}

/// What happens to what the extents held before.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum WipeArg {
    /// Zero the places where signatures are looked for
    #[default]
    Signatures,
    /// Zero the whole LV before it can be used
    Zero,
}

/// How the extents lie.
#[derive(Clone, Copy, Debug, Args)]
pub struct LayoutArgs {
    /// Spread the LV over so many PVs
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=128))]
    pub stripes: Option<u32>,
    /// Bytes on one PV before the next follows; a bare number is KiB
    #[arg(long, value_name = "SIZE", requires = "stripes")]
    pub stripesize: Option<StripeSizeArg>,
    /// Where new extents may lie
    #[arg(long, value_enum)]
    pub policy: Option<PolicyArg>,
}

/// A stripe size in bytes; a bare number is KiB, as with lvm2.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StripeSizeArg(pub u64);

impl std::str::FromStr for StripeSizeArg {
    type Err = lvm2::units::UnitError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let bare = text.chars().all(|c| c.is_ascii_digit());
        let size = if bare {
            lvm2::units::parse_size(&format!("{text}k"))
        } else {
            lvm2::units::parse_size(text)
        };
        size.map(|size| Self(size.0))
    }
}

/// Arguments of `lv create`.
#[derive(Clone, Debug, Args)]
#[command(group = clap::ArgGroup::new("amount").required(true).args(["size", "extents"]))]
pub struct CreateArgs {
    /// The VG
    #[arg(value_name = "VG")]
    pub vg: String,
    /// Name of the LV
    #[arg(short, long)]
    pub name: String,
    /// Size, e.g. 10g; a bare number is MiB; rounded up to whole extents
    #[arg(short = 'L', long, value_name = "SIZE")]
    pub size: Option<String>,
    /// Size in extents, or as a part of the free ones: 100, 50%FREE
    #[arg(short = 'l', long, value_name = "N|N%FREE")]
    pub extents: Option<String>,
    /// Tag of the LV; may be repeated
    #[arg(long = "tag", value_name = "TAG")]
    pub tags: Vec<String>,
    /// How the extents lie.
    #[command(flatten)]
    pub layout: LayoutArgs,
    /// What happens to what the extents held before
    #[arg(long, value_enum, default_value_t)]
    pub wipe: WipeArg,
    /// Do not leave the LV active
    #[arg(long)]
    pub inactive: bool,
    /// Dry run and output.
    #[command(flatten)]
    pub change: ChangeArgs,
}

/// Arguments of `lv extend`.
#[derive(Clone, Debug, Args)]
#[command(group = clap::ArgGroup::new("amount").required(true).args(["size", "extents"]))]
pub struct ExtendArgs {
    /// The LV
    #[arg(value_name = "VG/LV")]
    pub lv: String,
    /// New size, or with + what is added; a bare number is MiB
    #[arg(short = 'L', long, value_name = "[+]SIZE")]
    pub size: Option<String>,
    /// New size in extents, or with + what is added: +100, +50%FREE
    #[arg(short = 'l', long, value_name = "[+]N|+N%FREE")]
    pub extents: Option<String>,
    /// How the new extents lie.
    #[command(flatten)]
    pub layout: LayoutArgs,
    /// Dry run and output.
    #[command(flatten)]
    pub change: ChangeArgs,
}

/// Arguments of `lv remove`.
#[derive(Clone, Debug, Args)]
pub struct RemoveArgs {
    /// The LV
    #[arg(value_name = "VG/LV")]
    pub lv: String,
    /// Do not ask
    #[arg(short, long)]
    pub yes: bool,
    /// Dry run and output.
    #[command(flatten)]
    pub change: ChangeArgs,
}

/// Arguments of `lv rename`.
#[derive(Clone, Debug, Args)]
pub struct RenameArgs {
    /// The LV
    #[arg(value_name = "VG/LV")]
    pub lv: String,
    /// Its new name
    #[arg(value_name = "NAME")]
    pub to: String,
    /// Dry run and output.
    #[command(flatten)]
    pub change: ChangeArgs,
}

/// An LV.
#[derive(Clone, Debug, Args)]
pub struct NameArgs {
    /// The LV
    #[arg(value_name = "VG/LV")]
    pub lv: String,
    /// Dry run and output.
    #[command(flatten)]
    pub change: ChangeArgs,
}
