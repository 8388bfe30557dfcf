/* The kernel headers that bindgen reads.
 *
 * Request numbers are function-like macros, which bindgen cannot evaluate;
 * a constant initialised with one it can. */
#define _GNU_SOURCE /* semtimedop, which the libc crate lacks */
#include <linux/btrfs.h>
#include <linux/dm-ioctl.h>
#include <linux/fs.h>
#include <linux/loop.h>
#include <sys/sem.h>

/* ext4 and XFS keep these in headers that are not installed with the kernel's.
 * The fourth form of the geometry is the one that every kernel has. */
#define EXT4_IOC_RESIZE_FS _IOW('f', 16, __u64)

struct xfs_growfs_data {
	__u64 newblocks;
	__u32 imaxpct;
};
#define XFS_IOC_FSGROWFSDATA _IOW('X', 110, struct xfs_growfs_data)

struct xfs_fsop_geom_v4 {
	__u32 blocksize;
	__u32 rtextsize;
	__u32 agblocks;
	__u32 agcount;
	__u32 logblocks;
	__u32 sectsize;
	__u32 inodesize;
	__u32 imaxpct;
	__u64 datablocks;
	__u64 rtblocks;
	__u64 rtextents;
	__u64 logstart;
	unsigned char uuid[16];
	__u32 sunit;
	__u32 swidth;
	__s32 version;
	__u32 flags;
	__u32 logsectsize;
	__u32 rtsectsize;
	__u32 dirblocksize;
	__u32 logsunit;
};
#define XFS_IOC_FSGEOMETRY_V4 _IOR('X', 124, struct xfs_fsop_geom_v4)

#define REQUEST(name) static const unsigned long REQ_##name = name

REQUEST(DM_VERSION);
REQUEST(DM_LIST_DEVICES);
REQUEST(DM_DEV_CREATE);
REQUEST(DM_DEV_REMOVE);
REQUEST(DM_DEV_RENAME);
REQUEST(DM_DEV_SUSPEND);
REQUEST(DM_DEV_STATUS);
REQUEST(DM_DEV_ARM_POLL);
REQUEST(DM_TABLE_LOAD);
REQUEST(DM_TABLE_CLEAR);
REQUEST(DM_TABLE_DEPS);
REQUEST(DM_TABLE_STATUS);
REQUEST(DM_LIST_VERSIONS);
REQUEST(DM_TARGET_MSG);

REQUEST(BLKROGET);
REQUEST(BLKRASET);
REQUEST(BLKRAGET);
REQUEST(BLKSSZGET);
REQUEST(BLKPBSZGET);
REQUEST(BLKGETSIZE64);
REQUEST(BLKDISCARD);
REQUEST(BLKZEROOUT);

REQUEST(FIFREEZE);
REQUEST(FITHAW);
REQUEST(BTRFS_IOC_RESIZE);
REQUEST(EXT4_IOC_RESIZE_FS);
REQUEST(XFS_IOC_FSGROWFSDATA);
REQUEST(XFS_IOC_FSGEOMETRY_V4);

REQUEST(LOOP_CTL_GET_FREE);
REQUEST(LOOP_CONFIGURE);
REQUEST(LOOP_CLR_FD);
REQUEST(LOOP_GET_STATUS64);
REQUEST(LOOP_SET_CAPACITY);
