// Pixels are noise that depends on the record's index only: no writer can compress it, and the files do not depend on
// the order of writing.
#include "cli/bench/storage_data.h"

#include <fcntl.h>
#include <unistd.h>

#include <cstring>
#include <fmt/format.h>
#include <fstream>
#include <nlohmann/json.hpp>

#include "cli/terminal/signals.h"
#include "stoker/base/cpu_cores.h"
#include "stoker/base/error.h"
#include "stoker/base/file.h"
#include "stoker/base/hash.h"
#include "stoker/base/json_depth.h"
#include "stoker/formats/open.h"
#include "stoker/pack/pack.h"

namespace stoker::cli {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

constexpr const char* kMarker = "made.json";
constexpr int kClasses = 10;
constexpr std::uint64_t kShards = 8;

class NoiseDataset final : public Dataset {
  public:
    NoiseDataset(const RecordShape& shape, std::int64_t records) : shape_(shape), records_(records) {}

    std::int64_t size() const override { return records_; }
    std::optional<std::int64_t> label(std::int64_t index) const override { return index % kClasses; }
    std::string key(std::int64_t index) const override { return fmt::format("{:08}", index); }
    std::string path() const override { return fmt::format("noise of {} bytes", shape_.bytes()); }

    void read(std::int64_t index, Sample& sample) const override {
        sample.storage.resize(static_cast<std::size_t>(shape_.bytes()));
        const std::span<std::byte> out = sample.storage.bytes();
        for (std::size_t at = 0; at < out.size(); at += sizeof(std::uint64_t)) {
            const std::uint64_t number = hash_text("", static_cast<std::uint64_t>(index) << 32 | at);
            std::memcpy(out.data() + at, &number, std::min(sizeof number, out.size() - at));
        }
        sample.bytes = out;
        sample.encoded = false;
        sample.height = shape_.height;
        sample.width = shape_.width;
        sample.channels = shape_.channels;
        sample.label = *label(index);
    }

  private:
    RecordShape shape_;
    std::int64_t records_;
};

// One PNM file per record, without write_file's fsync of each.
void write_images(const Dataset& dataset, const RecordShape& shape, const fs::path& folder,
                  std::map<std::string, std::uint64_t>& sums) {
    const bool grey = shape.channels == 1;
    const std::string header = fmt::format("P{}\n{} {}\n255\n", grey ? 5 : 6, shape.width, shape.height);
    for (int label = 0; label < kClasses; ++label) {
        fs::create_directories(folder / std::to_string(label));
    }
    Sample sample;
    std::string file;
    for (std::int64_t i = 0; i < dataset.size(); ++i) {
        check_interrupt();
        dataset.read(i, sample);
        file = header;
        file.append(reinterpret_cast<const char*>(sample.bytes.data()), sample.bytes.size());
        sums["pixels"] += hash_bytes(sample.bytes);
        sums["folder"] += hash_text(file);
        const fs::path path = folder / std::to_string(sample.label) / (dataset.key(i) + (grey ? ".pgm" : ".ppm"));
        std::ofstream out(path, std::ios::binary);
        if (!out.write(file.data(), static_cast<std::streamsize>(file.size())).flush()) {  // else the disk may be full
            throw errno_error(path.string(), "a file that can be written");
        }
    }
}

void pack_into(const Dataset& dataset, const fs::path& target, std::uint64_t shard_size) {
    pack(dataset, target,
         {.shard_size = shard_size, .workers = cpu_cores().usable, .progress = [](const PackProgress& /*at*/) {
              check_interrupt();
          }});
}

void drop_file(const fs::path& path) {
    const Descriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
    if (file.get() < 0) {
        throw errno_error(path.string(), "a readable file");
    }
    ::fsync(file.get());  // unwritten pages cannot be dropped
    ::posix_fadvise(file.get(), 0, 0, POSIX_FADV_DONTNEED);
}

}  // namespace

StorageData find_storage_data(const fs::path& folder, const std::string& maker, std::int64_t records) {
    StorageData data{.folder = folder, .records = 0, .sums = {}};
    if (!fs::exists(folder) || fs::is_empty(folder)) {
        return data;
    }
    const std::string text = fs::exists(folder / kMarker) ? read_text(folder / kMarker) : "";
    const Json made = parse_json<Json>(text);
    if (!made.is_object() || made.value("maker", "") != maker || made.value("records", std::int64_t{0}) != records) {
        throw IoError({.where = folder.string(),
                       .expected = fmt::format("an empty folder, or one with {} records made by {}", records, maker),
                       .got = text.empty() ? "other files" : "other records",
                       .hint = "pass another --data, or remove the folder"});
    }
    data.records = records;
    data.sums = made.at("sums").get<std::map<std::string, std::uint64_t>>();
    return data;
}

void make_storage_data(const fs::path& folder, const RecordShape& shape, std::int64_t records) {
    const NoiseDataset dataset(shape, records);
    const auto total = static_cast<std::uint64_t>(shape.bytes() * records);
    std::map<std::string, std::uint64_t> sums;
    write_images(dataset, shape, folder / "folder", sums);
    pack_into(dataset, folder / "records.lmdb", total);
    pack_into(dataset, folder / "records.h5", total);
    pack_into(dataset, folder / "records.npz", total);
    fs::create_directories(folder / "shards");
    // Beside the pixels, a record takes two blocks of 512 bytes for the image member and two for the label member.
    const auto overhead = static_cast<std::uint64_t>(records) * 4 * 512;
    pack_into(dataset, folder / "shards/records-{000000..}.tar", (total + overhead) / kShards + 1);
    make_storage_stk(folder);
    const Json made = {{"maker", "stoker"}, {"records", records}, {"sums", sums}};
    write_file(folder / kMarker, json_text(made, 2) + "\n");
}

void make_storage_stk(const fs::path& folder) {
    const std::unique_ptr<Dataset> dataset = open_dataset((folder / "records.h5").string(), Split::train);
    pack_into(*dataset, folder / "records.stk", std::uint64_t{256} << 20);
}

void drop_from_cache(const fs::path& path) {
    if (!fs::is_directory(path)) {
        drop_file(path);
    } else {
        for (const fs::directory_entry& entry : fs::recursive_directory_iterator(path)) {
            if (entry.is_regular_file()) {
                drop_file(entry.path());
            }
        }
    }
    if (::geteuid() == 0) {
        // Also drops directories and inodes. Containers may forbid it; the files are dropped all the same.
        std::ofstream("/proc/sys/vm/drop_caches") << "3\n";
    }
}

}  // namespace stoker::cli
