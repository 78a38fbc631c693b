// Reading checks every record: one whose ends precede those of the record before is damaged.
#include "stoker/pack/sample_spool.h"

#include <algorithm>
#include <array>
#include <fmt/format.h>
#include <nlohmann/json.hpp>
#include <vector>

#include "stoker/base/error.h"
#include "stoker/base/file.h"
#include "stoker/pack/staging_folder.h"

namespace stoker {
namespace {

constexpr std::array kFiles = {"images", "keys", "records"};
constexpr std::size_t kBatchRecords = 4096;                    // at most, per batch
constexpr std::uint64_t kBatchBytes = std::uint64_t{8} << 20;  // of images per batch, unless one image is larger

struct Record {
    std::uint64_t image_end = 0;
    std::uint64_t key_end = 0;
    std::int64_t label = 0;
};

}  // namespace

void SampleSpool::resume(const Json* state) {
    const auto open = [&](const char* name) {
        return std::make_unique<AppendFile>(path(name), state == nullptr ? 0 : state_number(*state, name));
    };
    images_ = open(kFiles[0]);
    keys_ = open(kFiles[1]);
    records_ = open(kFiles[2]);
}

void SampleSpool::add(std::string_view key, std::int64_t label, std::span<const std::byte> image) {
    images_->append(image);
    keys_->append(as_bytes(key));
    const Record record{.image_end = images_->size(), .key_end = keys_->size(), .label = label};
    records_->append(std::as_bytes(std::span(&record, 1)));
}

SampleSpool::Json SampleSpool::save(std::uint64_t& hash) {
    Json state;
    std::array<std::uint64_t, kFiles.size()> hashes = {};
    const std::array<AppendFile*, kFiles.size()> files = {images_.get(), keys_.get(), records_.get()};
    for (std::size_t i = 0; i < kFiles.size(); ++i) {
        files[i]->sync();
        hashes[i] = files[i]->take_hash();
        state[kFiles[i]] = files[i]->size();
    }
    hash = hash_bytes(std::as_bytes(std::span(hashes)));
    return state;
}

std::uint64_t SampleSpool::read_hash(const Json* before, const Json& state) const {
    std::array<std::uint64_t, kFiles.size()> hashes = {};
    for (std::size_t i = 0; i < kFiles.size(); ++i) {
        const std::uint64_t begin = before == nullptr ? 0 : state_number(*before, kFiles[i]);
        const std::uint64_t end = std::max(begin, state_number(state, kFiles[i]));
        staged_size(path(kFiles[i]), end);
        hashes[i] = hash_range(path(kFiles[i]), begin, end);
    }
    return hash_bytes(std::as_bytes(std::span(hashes)));
}

void SampleSpool::read(std::int64_t count, bool images, const std::function<void(const SpoolBatch&)>& take) const {
    const File image_file(path(kFiles[0]));
    const File key_file(path(kFiles[1]));
    const File record_file(path(kFiles[2]));
    std::vector<Record> records(kBatchRecords);
    std::vector<std::byte> image_bytes;
    std::vector<char> key_bytes;
    std::vector<std::span<const std::byte>> spans;
    std::vector<std::string_view> keys;
    std::vector<std::int64_t> labels;
    Record last;
    for (std::uint64_t at = 0; at < static_cast<std::uint64_t>(count);) {
        std::size_t size = std::min<std::uint64_t>(kBatchRecords, static_cast<std::uint64_t>(count) - at);
        record_file.read(at * sizeof(Record), std::as_writable_bytes(std::span(records).first(size)));
        Record before = last;
        for (std::size_t i = 0; i < size; ++i) {
            const Record& record = records[i];
            if (record.image_end < before.image_end || record.key_end < before.key_end) {
                throw DataError({.path = path(kFiles[2]).string()},
                                {.where = "pack",
                                 .expected = "records in order",
                                 .got = "a record that does not follow the one before"});
            }
            before = record;
            if (images && i > 0 && record.image_end - last.image_end > kBatchBytes) {
                size = i;
                break;
            }
        }
        const Record& end = records[size - 1];
        image_bytes.resize(images ? end.image_end - last.image_end : 0);
        key_bytes.resize(end.key_end - last.key_end);
        image_file.read(last.image_end, image_bytes);
        key_file.read(last.key_end, std::as_writable_bytes(std::span(key_bytes)));
        spans.clear();
        keys.clear();
        labels.clear();
        before = last;
        for (std::size_t i = 0; i < size; ++i) {
            const Record& record = records[i];
            if (images) {
                spans.emplace_back(image_bytes.data() + (before.image_end - last.image_end),
                                   record.image_end - before.image_end);
            }
            keys.push_back(std::string_view(key_bytes.data(), key_bytes.size())
                               .substr(before.key_end - last.key_end, record.key_end - before.key_end));
            labels.push_back(record.label);
            before = record;
        }
        take({.pixels = image_bytes, .images = spans, .labels = labels, .keys = keys});
        last = end;
        at += size;
    }
}

}  // namespace stoker
