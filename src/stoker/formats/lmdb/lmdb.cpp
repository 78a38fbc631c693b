// Combines the snapshot, the keys and the record reader.
#include "stoker/formats/lmdb/lmdb.h"

#include <algorithm>
#include <atomic>
#include <fmt/format.h>
#include <iterator>
#include <nlohmann/json.hpp>

#include "stoker/base/error.h"
#include "stoker/base/json_depth.h"
#include "stoker/base/parse_number.h"
#include "stoker/base/prefetch.h"
#include "stoker/base/utf8.h"
#include "stoker/formats/field_values.h"
#include "stoker/formats/lmdb/lmdb_fields.h"

namespace stoker {
namespace {

using Kind = PickleValue::Kind;

// Empty for anything but a list of texts.
std::vector<std::string> json_names(std::string_view text) {
    const auto list = parse_json<nlohmann::json>(text);
    const bool texts = list.is_array() && std::ranges::all_of(list, [](const auto& name) { return name.is_string(); });
    return texts ? list.get<std::vector<std::string>>() : std::vector<std::string>();
}

std::vector<std::string> pickled_names(std::span<const std::byte> bytes) {
    Pickle pickle;
    const PickleValue list = pickle.read(bytes);
    std::vector<std::string> names;
    if (list.kind() != Kind::list && list.kind() != Kind::tuple) {
        return {};
    }
    for (std::size_t i = 0; i < list.size(); ++i) {
        if (list[i].kind() != Kind::text) {
            return {};
        }
        list.count_copied(list[i].text().size());
        names.emplace_back(list[i].text());
    }
    return names;
}

std::vector<std::string> read_classes(const LmdbSnapshot& snapshot) {
    constexpr std::string_view kKey = "__classes__";
    const auto value = snapshot.tree().find(kKey);
    if (!value) {
        return {};
    }
    try {
        Buffer storage;
        const auto bytes = snapshot.load(*value, storage);
        return as_text(bytes).starts_with('[') ? json_names(as_text(bytes)) : pickled_names(bytes);
    } catch (const DataError& error) {
        throw error.located({.path = snapshot.path(), .key = std::string(kKey)});
    }
}

// The name of the field that holds a record's key, as `stoker pack` stores it; otherwise empty. Other programs store
// other things under this name, such as lists of keys.
std::string read_key_field(const LmdbSnapshot& snapshot) {
    constexpr std::string_view kKey = "__keys__";
    const auto value = snapshot.tree().find(kKey);
    if (!value) {
        return "";
    }
    try {
        Pickle pickle;
        const PickleValue name = pickle.read(*value);
        return name.kind() == Kind::text ? std::string(name.text()) : "";
    } catch (const DataError&) {
        return "";
    } catch (const Unsupported&) {
        return "";
    }
}

std::string printable(std::string_view key) {
    std::string text;
    while (!key.empty()) {
        const std::size_t sequence = utf8_sequence(key);
        const bool control = sequence == 1 && (static_cast<unsigned char>(key[0]) < 0x20 || key[0] == 0x7f);
        const std::size_t length = control ? 0 : sequence;
        if (length == 0) {
            text += fmt::format("\\x{:02x}", static_cast<unsigned char>(key[0]));
        } else {
            text += key.substr(0, length);
        }
        key.remove_prefix(std::max<std::size_t>(length, 1));
    }
    return text;
}

// Numbers the threads in the order of their first call, so that the threads of a pool get different numbers.
std::size_t thread_number() {
    static std::atomic<std::size_t> threads{0};
    thread_local const std::size_t number = threads.fetch_add(1, std::memory_order_relaxed);
    return number;
}

// Calls `read` and adds path and key to its errors. Unsupported becomes DataError, because the other records may be
// good.
template <typename Read>
auto with_place(const std::string& path, std::string_view key, const Read& read) {
    try {
        return read();
    } catch (const DataError& error) {
        throw error.located({.path = path, .key = printable(key)});
    } catch (const Unsupported& error) {
        throw DataError({.path = path, .key = printable(key)},
                        {.where = "lmdb", .expected = "a record that can be read", .got = error.what()});
    }
}

std::filesystem::path require_lmdb(const std::filesystem::path& data) {
    if (auto found = find_lmdb(data)) {
        return *found;
    }
    throw IoError({.where = data.string(),
                   .expected = "a folder that holds data.mdb, or a file named .lmdb or .mdb",
                   .got = "neither"});
}

}  // namespace

bool holds_lmdb(const std::filesystem::path& data) {
    return find_lmdb(data).has_value();
}

LmdbDataset::LmdbDataset(const std::filesystem::path& data, const FieldNames& fields, Split split)
    : path_(data.string()),
      snapshot_(require_lmdb(data)),
      keys_(snapshot_),
      leaves_(snapshot_.tree(), keys_),
      names_(fields),
      split_(split),
      classes_(read_classes(snapshot_)),
      key_field_(read_key_field(snapshot_)) {
    names_.more = present_requests();
    for (std::size_t i = 0; i < kRecords; ++i) {
        records_.push_back(std::make_unique<Records>(names_, split));
    }
    std::ranges::transform(names_.more, std::back_inserter(fields_),
                           [&](const FieldRequest& request) { return describe(request); });
    for (const std::unique_ptr<Records>& records : records_) {
        records->record.set_fields(fields_);
    }
}

// Packed databases have fields under their own names; others are not described by a writer.
std::vector<FieldRequest> LmdbDataset::present_requests() const {
    std::vector<FieldRequest> requests = names_.more;
    for (FieldRequest& request : requests) {
        const FieldRequest own{.name = request.name, .kind = request.kind};
        if (!described_by_writer(request, path_) && described_by_writer(own, path_)) {
            request = own;
        }
    }
    return requests;
}

std::optional<Field> LmdbDataset::described_by_writer(const FieldRequest& request, const std::string& where) const {
    constexpr std::string_view kKey = "__fields__";
    const auto value = snapshot_.tree().find(kKey);
    if (!value) {
        return std::nullopt;
    }
    try {
        Buffer storage;
        return find_described_field(snapshot_.load(*value, storage), request, where);
    } catch (const DataError&) {  // of another program
        return std::nullopt;
    } catch (const Unsupported&) {
        return std::nullopt;
    }
}

// The field as the readable ones of some samples say; a first side that differs between them has any length.
Field LmdbDataset::describe(const FieldRequest& request) const {
    const std::string where = fmt::format("{}:{}", path_, request.source());
    if (const std::optional<Field> field = described_by_writer(request, where)) {
        return *field;
    }
    LmdbRecord record(names_, split_);
    Buffer storage;
    const auto describe = [&](std::int64_t index) {
        LmdbKeys::Memory memory;
        const std::string_view key = key_of(index, memory);
        return stoker::with_place({.path = path_, .key = printable(key)},
                                  [&] { return record.describe(load(index, key, storage), request, where); });
    };
    return common_field(probed_samples(size()), describe, where);
}

std::vector<Field> LmdbDataset::stored_fields() const {
    std::vector<std::string> names;
    try {
        LmdbKeys::Memory memory;
        Buffer storage;
        names = LmdbRecord(names_, split_).further_names(load(0, key_of(0, memory), storage));
    } catch (const DataError&) {  // a bad sample
    } catch (const Unsupported&) {
    }
    std::vector<Field> found;
    for (const std::string& name : names) {
        if (name == key_field_) {
            continue;
        }
        try {
            Field field = describe({.name = name});
            field.kind = field.kind == FieldKind::image   ? guessed_image_kind(name)
                         : field.kind == FieldKind::value ? guessed_kind(name, field.dtype, field.shape)
                                                          : field.kind;
            found.push_back(std::move(field));
        } catch (const DataError&) {  // objects that cannot be fields
        } catch (const Unsupported&) {
        }
    }
    return found;
}

std::string_view LmdbDataset::key_of(std::int64_t index, LmdbKeys::Memory& memory) const {
    check_index(index);
    return keys_.at(index, memory);
}

LmdbDataset::Records& LmdbDataset::thread_records() const {
    return *records_[thread_number() % kRecords];
}

std::span<const std::byte> LmdbDataset::load(std::int64_t index, std::string_view key, Buffer& storage) const {
    auto value = leaves_.find(index, key);
    value = value ? value : snapshot_.tree().find(key);
    if (!value) {
        throw DataError({}, {.where = "lmdb", .expected = "a record under each key of the sequence", .got = "none"});
    }
    return snapshot_.load(*value, storage);
}

void LmdbDataset::read(std::int64_t index, Sample& sample) const {
    LmdbKeys::Memory memory;
    const std::string_view key = key_of(index, memory);
    with_place(path_, key, [&] {
        const auto bytes = load(index, key, sample.storage);
        Records& records = thread_records();
        const std::lock_guard lock(records.mutex);
        records.record.read(bytes, sample);
        if (keys_.paired()) {
            sample.label = paired_label(key);
        }
    });
}

void LmdbDataset::prefetch(std::span<const std::int64_t> indices) const {
    for (const std::int64_t index : prefetched(indices)) {
        if (index >= 0 && index < size()) {
            leaves_.prefetch(index);
        }
    }
}

std::int64_t LmdbDataset::paired_label(std::string_view key) const {
    LmdbKeys::Memory memory;
    const auto value = snapshot_.tree().find(LmdbKeys::label_key(key, memory));
    if (!value) {
        return -1;
    }
    Buffer storage;
    return parse_number<std::int64_t>(as_text(snapshot_.load(*value, storage))).value_or(-1);
}

std::string LmdbDataset::key(std::int64_t index) const {
    LmdbKeys::Memory memory;
    const std::string_view key = key_of(index, memory);
    if (key_field_.empty()) {
        return printable(key);
    }
    return with_place(path_, key, [&] {
        const auto value = snapshot_.tree().find(key);
        if (!value) {
            return printable(key);
        }
        Records& records = thread_records();
        const std::lock_guard lock(records.mutex);
        return records.record.text(*value, key_field_);
    });
}

std::optional<std::int64_t> LmdbDataset::label(std::int64_t index) const {
    LmdbKeys::Memory memory;
    const std::string_view key = key_of(index, memory);
    if (!keys_.paired()) {
        return std::nullopt;
    }
    return paired_label(key);
}

}  // namespace stoker
