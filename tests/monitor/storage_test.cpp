// What made-up paths are stored on, and reads of real files.
#include "stoker/monitor/storage.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>

#include "monitor/support.h"
#include "stoker/base/error.h"

namespace stoker {
namespace {

namespace fs = std::filesystem;
using stoker::testing::MadeUpTree;

// A host with a disk of each kind: `nvme0n1p2` is a partition, btrfs makes up a number.
void write_host(const MadeUpTree& tree) {
    tree.write("proc/self/mountinfo",
               "27 1 259:2 / / rw,relatime shared:1 - ext4 /dev/nvme0n1p2 rw\n"
               "28 27 8:0 / /slow rw - xfs /dev/sda rw\n"
               "29 27 254:0 / /cloud rw master:1 propagate_from:2 - ext4 /dev/vda rw\n"
               "30 27 0:40 / /butter rw - btrfs /dev/sdb1 rw\n"
               "31 27 0:50 / /nfs\\040share rw - nfs4 server:/export rw\n"
               "32 27 0:51 / /bucket rw - fuse.gcsfuse bucket rw\n"
               "33 27 0:52 / /dev/shm rw - tmpfs tmpfs rw\n"
               "34 27 0:53 / /layers rw - overlay overlay rw\n"
               "35 27 0:54 / /slow/ram rw - tmpfs tmpfs rw\n"
               "36 27 8:16\n");
    const auto disk = [&](const std::string& number, const std::string& folder, const char* rotates) {
        tree.write("sys/devices/" + folder + "/queue/rotational", rotates);
        fs::create_directories(tree.root() + "/sys/dev/block");
        fs::create_directory_symlink("../../devices/" + folder, tree.root() + "/sys/dev/block/" + number);
    };
    disk("259:0", "nvme0n1", "0\n");
    disk("8:0", "sda", "1\n");
    disk("254:0", "vda", "1\n");  // virtio's default
    tree.write("sys/devices/nvme0n1/nvme0n1p2/partition", "2\n");
    fs::create_directory_symlink("../../devices/nvme0n1/nvme0n1p2", tree.root() + "/sys/dev/block/259:2");
    tree.write("sys/devices/sdb/queue/rotational", "0\n");
    tree.write("sys/devices/sdb/sdb1/partition", "1\n");
    fs::create_directories(tree.root() + "/sys/class/block");
    fs::create_directory_symlink("../../devices/sdb/sdb1", tree.root() + "/sys/class/block/sdb1");
}

TEST(Storage, KindsOfMadeUpMounts) {
    const MadeUpTree tree;
    write_host(tree);
    const auto kind = [&](const char* path) { return storage_of(path, tree.root()).kind; };
    EXPECT_EQ(kind("/home/me"), StorageKind::nvme);
    EXPECT_EQ(storage_of("/home/me", tree.root()).device, "nvme0n1");
    EXPECT_EQ(kind("/slow/data"), StorageKind::rotating);
    EXPECT_EQ(kind("/slower"), StorageKind::nvme);  // not below /slow
    EXPECT_EQ(kind("/slow/ram/x"), StorageKind::memory);
    EXPECT_EQ(kind("/cloud"), StorageKind::virtual_disk);
    EXPECT_EQ(kind("/butter/x"), StorageKind::ssd);
    EXPECT_EQ(storage_of("/butter", tree.root()).device, "sdb");
    EXPECT_EQ(kind("/nfs share/x"), StorageKind::network);
    EXPECT_EQ(storage_of("/nfs share", tree.root()).device, "server:/export");
    EXPECT_EQ(kind("/bucket"), StorageKind::network);
    EXPECT_EQ(kind("/dev/shm"), StorageKind::memory);
    EXPECT_EQ(kind("/layers"), StorageKind::overlay);
}

TEST(Storage, VirtualDisksAreKnownByTheirMaker) {
    const auto kind = [](const char* disk, const char* file, const char* name) {
        const MadeUpTree tree;
        write_host(tree);
        tree.write(std::string("sys/devices/") + disk + "/device/" + file, name);
        return storage_of(disk[0] == 'n' ? "/home" : "/slow", tree.root()).kind;
    };
    EXPECT_EQ(kind("sda", "vendor", "QEMU    \n"), StorageKind::virtual_disk);
    EXPECT_EQ(kind("sda", "vendor", "VMware  \n"), StorageKind::virtual_disk);
    EXPECT_EQ(kind("sda", "vendor", "Msft    \n"), StorageKind::virtual_disk);
    EXPECT_EQ(kind("sda", "vendor", "Google  \n"), StorageKind::virtual_disk);
    EXPECT_EQ(kind("nvme0n1", "model", "Amazon Elastic Block Store              \n"), StorageKind::virtual_disk);
    EXPECT_EQ(kind("nvme0n1", "model", "Amazon EC2 NVMe Instance Storage        \n"), StorageKind::nvme);
    EXPECT_EQ(kind("nvme0n1", "model", "Samsung SSD 990 PRO 2TB\n"), StorageKind::nvme);
    EXPECT_EQ(kind("sda", "vendor", "ATA     \n"), StorageKind::rotating);
}

// LVM in LUKS on a partition of a virtual disk, and an array of NVMe disks.
TEST(Storage, VolumesAreOfTheKindOfTheDiskBelow) {
    const MadeUpTree tree;
    tree.write("proc/self/mountinfo",
               "27 1 253:1 / / rw - ext4 /dev/mapper/vg-root rw\n28 27 9:0 / /array rw - xfs /dev/md0 rw\n");
    const auto link = [&](const std::string& target, const std::string& at) {
        fs::create_directories(fs::path(tree.root() + "/sys/" + at).parent_path());
        fs::create_directory_symlink(tree.root() + "/sys/devices/" + target, tree.root() + "/sys/" + at);
    };
    for (const char* disk : {"dm-0", "dm-1", "md0", "vda", "nvme0n1", "nvme1n1"}) {
        tree.write(std::string("sys/devices/") + disk + "/queue/rotational", disk[0] == 'n' ? "0\n" : "1\n");
    }
    tree.write("sys/devices/vda/vda2/partition", "2\n");
    link("dm-1", "dev/block/253:1");
    link("dm-0", "devices/dm-1/slaves/dm-0");
    link("vda/vda2", "devices/dm-0/slaves/vda2");
    link("md0", "dev/block/9:0");
    link("nvme0n1", "devices/md0/slaves/nvme0n1");
    link("nvme1n1", "devices/md0/slaves/nvme1n1");
    EXPECT_EQ(storage_of("/home", tree.root()).kind, StorageKind::virtual_disk);
    EXPECT_EQ(storage_of("/home", tree.root()).device, "vda");
    EXPECT_EQ(storage_of("/array", tree.root()).kind, StorageKind::nvme);
}

TEST(Storage, WithoutMountsTheKindIsUnknown) {
    const MadeUpTree tree;
    EXPECT_EQ(storage_of("/x", tree.root()).kind, StorageKind::unknown);
    tree.write("proc/self/mountinfo", "27 1 259:2 / / rw - ext4 /dev/nvme0n1p2 rw\n");  // nothing in /sys
    const Storage storage = storage_of("/x", tree.root());
    EXPECT_EQ(storage.kind, StorageKind::unknown);
    EXPECT_EQ(storage.file_system, "ext4");
}

TEST(Storage, DamagedLinesAreSkipped) {
    EXPECT_TRUE(parse_mounts("").empty());
    EXPECT_TRUE(parse_mounts("1 2 3\n1 2 0:1 / /a rw shared:1 ext4 x\n\n-\n").empty());
    const auto mounts = parse_mounts("1 2 0:1 / /a\\011b\\ rw - ext4 \\04");
    ASSERT_EQ(mounts.size(), 1);
    EXPECT_EQ(mounts[0].folder, "/a\tb\\");
}

TEST(Storage, RealFilesAreMeasured) {
    const testing::TempDir folder;
    EXPECT_FALSE(measure_reads({}, 0.1));
    std::vector<ReadableFile> files;
    files.push_back(nameless_file(folder.path(), 3 << 20, 10));
    EXPECT_TRUE(fs::is_empty(folder.path()));
    EXPECT_EQ(files[0].bytes, 3 << 20);
    EXPECT_EQ(nameless_file(folder.path(), 3 << 20, 0).bytes, 1 << 20);  // what fits into the time
    const auto rates = measure_reads(files, 0.1);
    ASSERT_TRUE(rates);
    EXPECT_GT(rates->sequential_bytes, 1e5);
    EXPECT_GT(rates->random_reads, 1);
    EXPECT_THROW(nameless_file(folder / "absent", 1 << 20, 10), IoError);
}

TEST(Storage, LargeFilesAreChosenToRead) {
    const testing::TempDir folder;
    EXPECT_TRUE(files_to_read(folder.path()).empty());
    EXPECT_TRUE(files_to_read(folder / "absent").empty());
    fs::create_directories(folder / "sub/sub");
    std::ofstream(folder / "tiny") << "x";
    std::ofstream(folder / "sub/sub/large") << std::string(100'000, 'x');
    std::ofstream(folder / "medium") << std::string(50'000, 'x');
    const auto files = files_to_read(folder.path());
    ASSERT_EQ(files.size(), 2);
    EXPECT_EQ(files[0].bytes, 100'000);
    EXPECT_EQ(files_to_read(folder / "medium").size(), 1);
}

}  // namespace
}  // namespace stoker
