//! Arguments of `pv` and `vg`.

use std::path::PathBuf;

use clap::{Args, Subcommand};

use super::args::{ChangeArgs, EXIT_STATUSES, HistoryArgs};

/// What can be done with PVs.
#[derive(Clone, Debug, Subcommand)]
pub enum PvCommand {
    /// Make devices PVs that belong to no VG yet
    ///
    /// What is found on a device is listed, and wiped only with --yes. Devices
    /// that are mounted, swapped to, partitioned, part of another device or PVs
    /// of a VG are refused in any case.
    #[command(after_help = EXIT_STATUSES)]
    Create(PvCreateArgs),
    /// Let a PV follow the size of its device, or take a part of it
    ///
    /// A PV shrinks only by extents that no LV uses.
    #[command(after_help = EXIT_STATUSES)]
    Resize(PvResizeArgs),
    /// Make PVs that belong to no VG plain devices again
    #[command(after_help = EXIT_STATUSES)]
    Remove(PvRemoveArgs),
}

/// What can be done with VGs.
#[derive(Clone, Debug, Subcommand)]
pub enum VgCommand {
    /// Make a VG of devices; those that are no PVs yet become such
    ///
    /// What is found on a device is listed, and wiped only with --yes; PVs of
    /// other VGs are refused in any case.
    #[command(after_help = EXIT_STATUSES)]
    Create(VgCreateArgs),
    /// Add devices to a VG; those that are no PVs yet become such
    #[command(after_help = EXIT_STATUSES)]
    Extend(VgExtendArgs),
    /// Take PVs that no LV uses out of a VG; they stay PVs
    #[command(after_help = EXIT_STATUSES)]
    Reduce(VgReduceArgs),
    /// Remove a VG without LVs; its PVs stay PVs
    #[command(after_help = EXIT_STATUSES)]
    Remove(VgRemoveArgs),
    /// Show the versions of a VG's metadata that can still be read
    ///
    /// They are copies in files, which `vgcfgrestore -f FILE VG` restores, and
    /// older texts that are still in the metadata areas of the VG's PVs.
    #[command(after_help = EXIT_STATUSES)]
    History(HistoryArgs),
}

/// How new PVs are laid out.
#[derive(Clone, Debug, Args)]
pub struct PvLayoutArgs {
    /// Least size of the metadata area; by default it reaches up to 16 MiB on
    /// disks of 256 MiB and more: room for some 18 000 LVs
    #[arg(long, value_name = "SIZE")]
    pub metadata_size: Option<String>,
    /// Begin the data at a multiple of this, instead of what the disk likes
    #[arg(long, value_name = "SIZE")]
    pub data_alignment: Option<String>,
    /// Wipe what is found on the devices
    #[arg(short, long)]
    pub yes: bool,
}

/// Arguments of `pv create`.
#[derive(Clone, Debug, Args)]
pub struct PvCreateArgs {
    /// The devices
    #[arg(value_name = "DEVICE", required = true)]
    pub devices: Vec<PathBuf>,
    /// How new PVs are laid out.
    #[command(flatten)]
    pub layout: PvLayoutArgs,
    /// Dry run and output.
    #[command(flatten)]
    pub change: ChangeArgs,
}

/// Arguments of `pv resize`.
#[derive(Clone, Debug, Args)]
pub struct PvResizeArgs {
    /// The device
    #[arg(value_name = "DEVICE")]
    pub device: PathBuf,
    /// New size; by default all of the device
    #[arg(long, value_name = "SIZE")]
    pub size: Option<String>,
    /// Dry run and output.
    #[command(flatten)]
    pub change: ChangeArgs,
}

/// Arguments of `pv remove`.
#[derive(Clone, Debug, Args)]
pub struct PvRemoveArgs {
    /// The devices
    #[arg(value_name = "DEVICE", required = true)]
    pub devices: Vec<PathBuf>,
    /// Dry run and output.
    #[command(flatten)]
    pub change: ChangeArgs,
}

/// Arguments of `vg create`.
#[derive(Clone, Debug, Args)]
pub struct VgCreateArgs {
    /// Name of the VG
    #[arg(value_name = "VG")]
    pub vg: String,
    /// The devices
    #[arg(value_name = "DEVICE", required = true)]
    pub devices: Vec<PathBuf>,
    /// Size of an extent; a bare number is MiB
    #[arg(short = 's', long, value_name = "SIZE", default_value = "4m")]
    pub extent_size: String,
    /// Tag of the VG; may be repeated
    #[arg(long = "tag", value_name = "TAG")]
    pub tags: Vec<String>,
    /// How new PVs are laid out.
    #[command(flatten)]
    pub layout: PvLayoutArgs,
    /// Dry run and output.
    #[command(flatten)]
    pub change: ChangeArgs,
}

/// Arguments of `vg extend`.
#[derive(Clone, Debug, Args)]
pub struct VgExtendArgs {
    /// The VG
    #[arg(value_name = "VG")]
    pub vg: String,
    /// The devices
    #[arg(value_name = "DEVICE", required = true)]
    pub devices: Vec<PathBuf>,
    /// How new PVs are laid out.
    #[command(flatten)]
    pub layout: PvLayoutArgs,
    /// Dry run and output.
    #[command(flatten)]
    pub change: ChangeArgs,
}

/// Arguments of `vg reduce`.
#[derive(Clone, Debug, Args)]
pub struct VgReduceArgs {
    /// The VG
    #[arg(value_name = "VG")]
    pub vg: String,
    /// Devices of the PVs
    #[arg(value_name = "DEVICE", required = true)]
    pub devices: Vec<PathBuf>,
    /// Dry run and output.
    #[command(flatten)]
    pub change: ChangeArgs,
}

/// Arguments of `vg remove`.
#[derive(Clone, Debug, Args)]
pub struct VgRemoveArgs {
    /// The VG
    #[arg(value_name = "VG")]
    pub vg: String,
    /// Dry run and output.
    #[command(flatten)]
    pub change: ChangeArgs,
}
