// Order of writes: a part's bytes are synced, then its line in the journal. At the end the finished files are synced,
// then the record in the folder, from which on only renames remain; then all are renamed, the record last.
#include "stoker/pack/staging_folder.h"

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <fmt/format.h>
#include <nlohmann/json.hpp>
#include <system_error>
#include <utility>

#include "stoker/base/error.h"
#include "stoker/base/file.h"
#include "stoker/base/json_depth.h"
#include "stoker/base/parse_number.h"

namespace stoker {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

constexpr const char* kJournal = "journal.jsonl";
constexpr const char* kRecord = "pack.json";
constexpr int kVersion = 1;

std::string line_of(const Json& json) {
    return json_text(json) + "\n";
}

std::string hex(std::uint64_t value) {
    return fmt::format("{:016x}", value);
}

std::uint64_t from_hex(const std::string& text) {
    const auto value = parse_number<std::uint64_t>(text, 16);
    if (!value) {
        throw DataError({}, {.where = "pack", .expected = "a hash in hexadecimal", .got = text});
    }
    return *value;
}

Json to_json(const StagedPart& part) {
    return {{"samples", part.samples}, {"codecs", part.codecs}, {"content", hex(part.content)},
            {"hash", hex(part.hash)},  {"state", part.state},   {"notes", part.notes}};
}

StagedPart part_from(const Json& json) {
    return {.samples = json.at("samples").get<std::int64_t>(),
            .codecs = json.at("codecs").get<std::map<std::string, std::int64_t>>(),
            .content = from_hex(json.at("content").get<std::string>()),
            .hash = from_hex(json.at("hash").get<std::string>()),
            .state = json.at("state"),
            .notes = json.at("notes").get<std::string>()};
}

// Reads a record. Throws DataError for another document.
Json read_record(const fs::path& path) {
    Json json = parse_json<Json>(read_text(path));
    if (!json.is_object() || json.value("stoker_pack", Json()) != kVersion || !json.contains("files")) {
        throw DataError({.path = path.string()},
                        {.where = "pack", .expected = "a record of `stoker pack`", .got = "another document"});
    }
    return json;
}

std::vector<std::pair<std::string, std::uint64_t>> files_of(const Json& record, const fs::path& path) {
    try {
        std::vector<std::pair<std::string, std::uint64_t>> files;
        for (const Json& file : record.at("files")) {
            std::string name = file.at("name").get<std::string>();
            if (name.empty() || name.find('/') != std::string::npos || name.starts_with('.')) {
                throw DataError({.path = path.string()},
                                {.where = "pack", .expected = "names of files beside the record", .got = name});
            }
            files.emplace_back(std::move(name), file.at("bytes").get<std::uint64_t>());
        }
        return files;
    } catch (const nlohmann::json::exception& error) {
        throw DataError({.path = path.string()}, {.where = "pack", .expected = "a list of files", .got = error.what()});
    }
}

void rename_file(const fs::path& from, const fs::path& to) {
    if (::rename(from.c_str(), to.c_str()) != 0) {
        throw errno_error(to.string(), "a name to write to");
    }
}

// Renames the files and the record to their places, or those that a killed process has left.
void rename_into_place(const StagingPaths& names) {
    const fs::path record = names.folder / kRecord;
    for (const auto& [name, bytes] : files_of(read_record(record), record)) {
        if (fs::exists(names.folder / name)) {
            rename_file(names.folder / name, names.parent / name);
        }
    }
    sync_directory(names.parent);
    rename_file(record, names.record);
    std::error_code ignored;  // what remains, the journal, is removed by the next packing of that name
    fs::remove_all(names.folder, ignored);
    sync_directory(names.parent);
}

bool is_number(std::string_view text) {
    return text.size() >= 6 && std::ranges::all_of(text, [](char c) { return c >= '0' && c <= '9'; });
}

// An existing file with the name of one that will be published; empty if there is none.
std::string existing_file(const StagingPaths& names) {
    if (std::string classes = names.stem + "-classes.txt";
        names.file.ends_with(".tar") && fs::exists(fs::symlink_status(names.parent / classes))) {
        return classes;
    }
    if (!names.shards) {
        return fs::exists(fs::symlink_status(names.parent / names.file)) ? names.file : "";
    }
    const std::string front = names.stem + "-";
    std::error_code error;
    for (fs::directory_iterator entry(names.parent, error), end; !error && entry != end; entry.increment(error)) {
        std::string name = entry->path().filename().string();
        if (name.starts_with(front) && name.ends_with(".tar") && name.size() > front.size() + 4 &&
            is_number(std::string_view(name).substr(front.size(), name.size() - front.size() - 4))) {
            return name;
        }
    }
    return "";
}

// Removes temporary files of the journal, which processes that were killed have left.
void remove_unfinished_journals(const fs::path& folder) {
    for (const fs::path& path : list_folder(folder)) {
        if (path.filename().string().starts_with(std::string(kJournal) + ".tmp-")) {
            fs::remove(path);
        }
    }
}

// Locks the folder. Empty if it does not exist and `make` is false.
std::optional<FolderLock> lock_folder(const fs::path& folder, bool make) {
    while (true) {
        if (!make && !fs::exists(folder)) {
            return std::nullopt;
        }
        FolderLock lock(folder, false);
        if (lock.holds(folder)) {
            return lock;
        }
        if (make) {  // another process has just removed it
            std::error_code error;
            fs::create_directories(folder, error);
        }
    }
}

const Json& state_value(const Json& state, const char* name, bool (Json::*has_type)() const) {
    const auto found = state.is_object() ? state.find(name) : state.end();
    if (found == state.end() || !((*found).*has_type)()) {
        throw DataError({}, {.where = "pack", .expected = fmt::format("{} of a part", name), .got = json_text(state)});
    }
    return *found;
}

}  // namespace

StagingPaths::StagingPaths(const fs::path& path)
    : target(path.string()), parent(path.has_parent_path() ? path.parent_path() : fs::path(".")) {
    file = path.filename().string();
    shards = file.ends_with(kShardsEnding);
    stem = shards ? file.substr(0, file.size() - kShardsEnding.size()) : path.stem().string();
    const std::string name = shards ? stem : file;
    folder = path.parent_path() / (name + ".part");
    record = path.parent_path() / (name + ".pack.json");
    file = shards ? shard(0) : file;
}

std::string StagingPaths::shard(std::size_t number) const {
    return fmt::format("{}-{:06}.tar", stem, number);
}

StagingFolder::StagingFolder(const StagingPaths& names, const std::string& origin) : names_(names) {
    std::error_code error;
    fs::create_directories(names_.folder, error);
    if (error) {
        throw errno_error(names_.folder.string(), "a place for a folder", error.value());
    }
    lock_ = lock_folder(names_.folder, true);
    try {
        remove_unfinished_journals(names_.folder);
        refuse_other_files();
        head_ = line_of({{"stoker_pack", kVersion}, {"origin", origin}});
        fs::exists(names_.folder / kJournal) ? read_journal(origin) : start_journal();
    } catch (...) {
        fs::remove(names_.folder, error);  // only if it is empty
        throw;
    }
}

StagingFolder::~StagingFolder() {
    journal_.reset();
    if (!published_ && parts_.empty()) {  // nothing to resume from
        std::error_code ignored;
        fs::remove_all(names_.folder, ignored);
    }
}

void StagingFolder::refuse_other_files() const {
    if (const std::string name = existing_file(names_); !name.empty()) {
        throw IoError({.where = (names_.parent / name).string(),
                       .expected = "no file of that name",
                       .got = "a file without a record of `stoker pack`",
                       .hint = "name another target, or remove it first"});
    }
    if (!fs::exists(names_.folder / kJournal) && !fs::is_empty(names_.folder)) {
        throw IoError({.where = names_.folder.string(),
                       .expected = "a new or empty folder",
                       .got = "one with files in it",
                       .hint = "name another target, or remove it first"});
    }
}

// Reads the parts up to the first incomplete line, which a kill or crash may have left.
void StagingFolder::read_journal(const std::string& origin) {
    const fs::path path = names_.folder / kJournal;
    const std::string text = read_text(path);
    std::size_t at = text.find('\n');
    const Json head = parse_json<Json>(text.substr(0, at));
    if (at == std::string::npos || !head.is_object() || head.value("origin", Json()) != origin) {
        if (at == std::string::npos || at + 1 == text.size()) {  // no parts yet
            return start_journal();
        }
        throw InvalidArgument({.where = names_.folder.string(),
                               .expected = "the source and options of the unfinished data set",
                               .got = "other ones",
                               .hint = "repeat that command to finish it, or remove the folder"});
    }
    for (++at; at < text.size();) {
        const std::size_t end = text.find('\n', at);
        if (end == std::string::npos) {
            break;
        }
        try {
            parts_.push_back(part_from(parse_json<Json>(text.substr(at, end - at))));
        } catch (const nlohmann::json::exception&) {
            break;
        } catch (const DataError&) {
            break;
        }
        at = end + 1;
    }
    journal_ = std::make_unique<AppendFile>(path, at);
}

void StagingFolder::start_journal() {
    std::string text = head_;
    for (const StagedPart& part : parts_) {
        text += line_of(to_json(part));
    }
    journal_.reset();
    write_file(names_.folder / kJournal, text);
    journal_ = std::make_unique<AppendFile>(names_.folder / kJournal, text.size());
}

void StagingFolder::keep_parts(std::size_t count) {
    parts_.resize(std::min(count, parts_.size()));
    start_journal();
}

void StagingFolder::add(StagedPart part) {
    journal_->append(as_bytes(line_of(to_json(part))));
    journal_->sync();
    parts_.push_back(std::move(part));
}

void StagingFolder::publish(const std::vector<std::string>& files, Json record) {
    Json listed = Json::array();
    for (const std::string& name : files) {
        listed.push_back({{"name", name}, {"bytes", fs::file_size(names_.folder / name)}});
    }
    record["files"] = std::move(listed);
    refuse_other_files();
    sync_directory(names_.folder);
    write_file(names_.folder / kRecord, json_text(record, 2) + "\n");
    published_ = true;
    rename_into_place(names_);
}

std::uint64_t state_number(const Json& state, const char* name) {
    return state_value(state, name, &Json::is_number_unsigned).get<std::uint64_t>();
}

std::string state_text(const Json& state, const char* name) {
    return state_value(state, name, &Json::is_string).get<std::string>();
}

std::uint64_t staged_size(const fs::path& path, std::uint64_t least) {
    std::error_code error;
    const std::uint64_t size = fs::file_size(path, error);
    if (error && error != std::errc::no_such_file_or_directory) {
        throw errno_error(path.string(), "a readable file", error.value());
    }
    if (error || size < least) {
        throw DataError({.path = path.string()}, {.where = "pack",
                                                  .expected = fmt::format("the {} bytes that were written", least),
                                                  .got = error ? "no file" : fmt::format("{}", size)});
    }
    return size;
}

std::optional<std::string> finished_origin(const fs::path& path) {
    const StagingPaths names(path);
    if (fs::exists(names.folder / kRecord)) {  // complete, but killed between two renames
        const std::optional<FolderLock> lock = lock_folder(names.folder, false);
        if (lock && fs::exists(names.folder / kRecord)) {
            rename_into_place(names);
        }
    }
    if (!fs::exists(names.record)) {
        return std::nullopt;
    }
    const Json record = read_record(names.record);
    const auto files = files_of(record, names.record);
    const auto there = [&](const auto& file) { return fs::exists(names.parent / file.first); };
    if (std::ranges::none_of(files, there)) {
        return std::nullopt;  // the data set was removed
    }
    for (const auto& [name, bytes] : files) {
        std::error_code error;
        const std::uint64_t size = fs::file_size(names.parent / name, error);
        if (error && error != std::errc::no_such_file_or_directory) {
            throw errno_error((names.parent / name).string(), "a readable file", error.value());
        }
        if (error || size != bytes) {
            throw InvalidArgument(
                {.where = (names.parent / name).string(),
                 .expected = fmt::format("the {} bytes that {} lists", bytes, names.record.filename().string()),
                 .got = error ? "no file" : fmt::format("{}", size),
                 .hint = "name another target, or remove this one first"});
        }
    }
    return json_text(record);
}

std::optional<std::string> unfinished_origin(const fs::path& path) {
    const fs::path journal = StagingPaths(path).folder / kJournal;
    if (!fs::exists(journal)) {
        return std::nullopt;
    }
    const std::string text = read_text(journal);
    if (std::ranges::count(text, '\n') < 2) {
        return std::nullopt;  // no parts yet
    }
    const Json head = parse_json<Json>(text.substr(0, text.find('\n')));
    if (!head.is_object() || !head.value("origin", Json()).is_string()) {
        throw DataError({.path = journal.string()},
                        {.where = "pack", .expected = "the journal of a packing", .got = "another document"});
    }
    return head["origin"].get<std::string>();
}

PackedSummary staged_summary(const fs::path& path) {
    const StagingPaths names(path);
    const Json record = read_record(names.record);
    PackedSummary figures;
    figures.path = path.string();
    std::int64_t tars = 0;
    for (const auto& [name, bytes] : files_of(record, names.record)) {
        figures.bytes += static_cast<std::int64_t>(bytes);
        tars += name.ends_with(".tar") ? 1 : 0;
    }
    figures.shards = std::max<std::int64_t>(tars, 1);
    if (names.shards) {
        const std::string range = fmt::format("{}-{{000000..{:06}}}.tar", names.stem, tars - 1);
        figures.path = path.has_parent_path() ? (path.parent_path() / range).string() : range;
    }
    try {
        figures.samples = record.at("samples").get<std::int64_t>();
        figures.codecs = record.at("codecs").get<std::map<std::string, std::int64_t>>();
    } catch (const nlohmann::json::exception& error) {
        throw DataError({.path = names.record.string()},
                        {.where = "pack", .expected = "samples and codecs", .got = error.what()});
    }
    return figures;
}

}  // namespace stoker
