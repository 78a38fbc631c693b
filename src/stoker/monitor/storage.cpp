#include "stoker/monitor/storage.h"

#include <algorithm>
#include <array>
#include <system_error>
#include <vector>

#include "stoker/monitor/counter_text.h"

namespace stoker {
namespace {

namespace fs = std::filesystem;

// "\040" as a blank: mountinfo writes blanks, tabs, line breaks and backslashes as octal numbers.
std::string unescaped(std::string_view text) {
    std::string plain;
    while (!text.empty()) {
        const auto code = text.front() == '\\' ? parse_number<unsigned>(text.substr(1, 3), 8) : std::nullopt;
        plain += code ? static_cast<char>(*code) : text.front();
        text.remove_prefix(code ? std::min<std::size_t>(4, text.size()) : 1);
    }
    return plain;
}

bool is_one_of(std::string_view name, std::span<const std::string_view> names) {
    return std::ranges::find(names, name) != names.end();
}

StorageKind kind_of_file_system(std::string_view name) {
    static constexpr std::array<std::string_view, 2> kMemory = {"tmpfs", "ramfs"};
    static constexpr std::array<std::string_view, 12> kNetwork = {
        "nfs", "nfs4", "cifs", "smb3", "ceph", "lustre", "gpfs", "afs", "beegfs", "glusterfs", "9p", "virtiofs"};
    if (is_one_of(name, kMemory)) {
        return StorageKind::memory;
    }
    // FUSE without a block device: buckets, sshfs.
    if (is_one_of(name, kNetwork) || name == "fuse" || name.starts_with("fuse.")) {
        return StorageKind::network;
    }
    return name == "overlay" ? StorageKind::overlay : StorageKind::unknown;
}

fs::path whole_disk(const fs::path& folder) {
    std::error_code error;
    return fs::exists(folder / "partition", error) ? folder.parent_path() : folder;
}

// The first disk below a volume of LVM, LUKS or md, which does not say its kind.
fs::path lowest_disk(fs::path folder) {
    constexpr int kMostLayers = 8;
    for (int layer = 0; layer < kMostLayers; ++layer) {
        std::vector<fs::path> below;
        std::error_code error;
        for (auto at = fs::directory_iterator(folder / "slaves", error); !error && at != fs::directory_iterator();
             at.increment(error)) {
            below.push_back(at->path());
        }
        if (below.empty()) {
            break;
        }
        const fs::path next = fs::canonical(*std::ranges::min_element(below), error);
        if (error) {
            break;
        }
        folder = whole_disk(next);
    }
    return folder;
}

// The folder in /sys of the disk that holds a block device. Empty if there is none.
fs::path disk_folder(const Mount& mount, const std::string& root) {
    std::error_code error;
    fs::path folder = fs::canonical(root + "/sys/dev/block/" + mount.device, error);
    if (error && mount.source.starts_with("/dev/")) {  // btrfs and others make up device numbers
        folder = fs::canonical(root + "/sys/class/block/" + fs::path(mount.source).filename().string(), error);
    }
    if (error) {
        return {};
    }
    return lowest_disk(whole_disk(folder));
}

// True if /sys names the maker of virtual machines or a cloud's network storage as the disk's.
bool is_virtual(const fs::path& disk) {
    static constexpr std::array<std::string_view, 5> kNames = {"QEMU", "VMware", "Msft", "Google",
                                                               "Amazon Elastic Block Store"};
    const std::string maker = read_counter_file(disk / "device/vendor").value_or("");  // of SCSI disks
    const std::string model = read_counter_file(disk / "device/model").value_or("");
    return std::ranges::any_of(
        kNames, [&](std::string_view name) { return maker.starts_with(name) || model.starts_with(name); });
}

bool is_below(const fs::path& path, const fs::path& folder) {
    return std::ranges::mismatch(folder, path).in1 == folder.end();
}

}  // namespace

const char* storage_name(StorageKind kind) {
    switch (kind) {
        case StorageKind::nvme:
            return "NVMe SSD";
        case StorageKind::ssd:
            return "SSD";
        case StorageKind::rotating:
            return "rotating disk";
        case StorageKind::virtual_disk:
            return "virtual disk";
        case StorageKind::memory:
            return "memory";
        case StorageKind::network:
            return "network";
        case StorageKind::overlay:
            return "container layers";
        case StorageKind::unknown:
            break;
    }
    return "storage of unknown kind";
}

// "36 35 98:0 /mnt1 /mnt2 rw,noatime master:1 - ext3 /dev/root rw": a lone '-' follows the optional fields.
std::vector<Mount> parse_mounts(std::string_view mountinfo) {
    std::vector<Mount> mounts;
    for_each_line(mountinfo, [&](std::string_view line) {
        take_word(line);
        take_word(line);
        Mount mount{.device = std::string(take_word(line)), .folder = {}, .file_system = {}, .source = {}};
        take_word(line);
        mount.folder = unescaped(take_word(line));
        std::string_view word = take_word(line);
        while (!word.empty() && word != "-") {
            word = take_word(line);
        }
        mount.file_system = take_word(line);
        mount.source = unescaped(take_word(line));
        if (!mount.folder.empty() && !mount.file_system.empty()) {
            mounts.push_back(std::move(mount));
        }
    });
    return mounts;
}

Storage storage_of(const fs::path& path, const std::string& root) {
    const auto text = read_counter_file(root + "/proc/self/mountinfo");
    Mount found;
    for (const Mount& mount : parse_mounts(text ? std::string_view(*text) : "")) {
        // A later mount hides an earlier one at the same place.
        if (is_below(path, mount.folder) && mount.folder.size() >= found.folder.size()) {
            found = mount;
        }
    }
    Storage storage{
        .kind = kind_of_file_system(found.file_system), .file_system = found.file_system, .device = found.source};
    const fs::path disk = disk_folder(found, root);
    if (storage.kind != StorageKind::unknown || disk.empty()) {
        return storage;
    }
    storage.device = disk.filename();
    const auto rotates = read_counter_number(disk / "queue/rotational");
    if (storage.device.starts_with("vd") || storage.device.starts_with("xvd") || is_virtual(disk)) {  // virtio, Xen
        storage.kind = StorageKind::virtual_disk;
    } else if (rotates) {
        const StorageKind solid = storage.device.starts_with("nvme") ? StorageKind::nvme : StorageKind::ssd;
        storage.kind = *rotates != 0 ? StorageKind::rotating : solid;
    }
    return storage;
}

}  // namespace stoker
