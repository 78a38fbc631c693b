// The cached listing holds the identity and times of every folder in it, and is valid while all are unchanged: adding,
// removing or renaming an entry changes its folder. Links are checked as well, because the target of a link may be
// replaced by a folder without a change to the folder of the link.
#include "stoker/formats/folder/folder_index.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <numeric>
#include <system_error>

#include "stoker/base/ascii.h"
#include "stoker/base/cpu_cores.h"
#include "stoker/base/error.h"
#include "stoker/base/file.h"
#include "stoker/base/parallel_for.h"
#include "stoker/base/pluralize.h"
#include "stoker/base/user_cache.h"
#include "stoker/formats/image_kind.h"
#include "stoker/formats/left_out.h"

namespace stoker {
namespace {

namespace fs = std::filesystem;

constexpr const char* kCacheKind = "folder_index";
constexpr int kVersion = 3;
constexpr std::size_t kMaxLinks = 4096;  // each costs a system call at every start; with more, nothing is cached

std::int64_t now_ns() {
    const auto now = std::chrono::system_clock::now().time_since_epoch();
    return std::chrono::duration_cast<std::chrono::nanoseconds>(now).count();
}

[[noreturn]] void refuse(const std::string& root, std::string got, std::string hint) {
    throw DataError(
        {.path = root},
        {.where = "image_folder",
         .expected = fmt::format("one subfolder of {} images for each class, such as cat/001.jpg", image_endings()),
         .got = std::move(got),
         .hint = std::move(hint)});
}

std::size_t images_in(const std::vector<WalkedFolder>& folders) {
    return std::accumulate(folders.begin(), folders.end(), std::size_t{0},
                           [](std::size_t sum, const WalkedFolder& folder) { return sum + folder.images.size(); });
}

// Within the root.
std::string path_in(const WalkedFolder& folder, const std::string& name) {
    return folder.path.empty() ? name : fmt::format("{}/{}", folder.path, name);
}

}  // namespace

struct FolderIndex::Listing {
    WalkedFolder top;  // its subfolders are the classes
    std::vector<std::vector<WalkedFolder>> classes;
    std::string left_out = {};

    template <typename Visit>
    void each_folder(Visit visit) const {
        visit(top);
        for (const auto& folders : classes) {
            std::ranges::for_each(folders, visit);
        }
    }
};

// The start of the cache file. The arrays of Parts follow, each padded to a multiple of 8 bytes.
struct FolderIndex::Header {
    std::uint64_t samples = 0;
    std::uint64_t classes = 0;
    std::uint64_t folders = 0;
    std::uint64_t links = 0;
    std::uint64_t names_bytes = 0;
    std::uint64_t texts_bytes = 0;

    std::uint64_t texts() const { return classes + folders + links + 1; }
};

// The arrays of a cache file within its memory, one after the other.
struct FolderIndex::Parts {
    Parts(std::byte* memory, const Header& header)
        : head(take<Header>(memory, 1)),
          begins(take<std::uint64_t>(memory, header.samples + 1)),
          labels(take<std::int32_t>(memory, header.samples)),
          stamps(take<FolderStamp>(memory, header.folders)),
          text_begins(take<std::uint64_t>(memory, header.texts() + 1)),
          texts(take<char>(memory, header.texts_bytes)),
          names(take<char>(memory, header.names_bytes)) {}

    template <typename Element>
    Element* take(std::byte* memory, std::uint64_t count) {
        auto* const part = memory == nullptr ? nullptr : reinterpret_cast<Element*>(memory + size);
        size += (count * sizeof(Element) + 7) / 8 * 8;
        return part;
    }

    std::uint64_t size = 0;
    Header* head;
    std::uint64_t* begins;
    std::int32_t* labels;
    FolderStamp* stamps;
    std::uint64_t* text_begins;
    char* texts;
    char* names;
};

namespace {

void check_filled(const std::string& root, const WalkedFolder& top,
                  const std::vector<std::vector<WalkedFolder>>& classes, std::int64_t unsupported_images) {
    std::string without;
    std::size_t empty = 0;
    for (std::size_t label = 0; label < classes.size(); ++label) {
        if (images_in(classes[label]) == 0 && ++empty <= 5) {
            without += (without.empty() ? "" : ", ") + top.folders[label];
        }
    }
    if (empty > 0) {
        refuse(root,
               fmt::format("none in {} of {}: {}{}", empty, pluralize(std::ssize(classes), "subfolder"), without,
                           empty > 5 ? ", ..." : ""),
               unsupported_images > 0
                   ? fmt::format("convert the {} of unsupported types", pluralize(unsupported_images, "image"))
               : empty < classes.size() ? "remove the subfolders without images or fill them"
                                        : "give the folder whose subfolders hold the images");
    }
}

// Throws if the subfolders are splits (train/cat/001.jpg) and not classes. One of them may hold images directly, as
// a test set without labels does.
void check_no_splits(const std::string& root, const std::vector<std::string>& names,
                     const std::vector<std::vector<WalkedFolder>>& classes) {
    constexpr std::string_view kSplits[] = {"train", "training", "val",     "valid", "validation",
                                            "test",  "testing",  "holdout", "dev",   "eval"};
    const bool splits = names.size() >= 2 && std::ranges::all_of(names, [&](const std::string& name) {
                            return std::ranges::find(kSplits, name) != std::end(kSplits);
                        });
    std::vector<std::string> nested;
    std::vector<std::string> flat;
    for (std::size_t i = 0; i < names.size(); ++i) {
        (classes[i].size() > 1 ? nested : flat).push_back(names[i]);
    }
    if (!splits) {
        return;
    }
    if (nested.empty()) {  // they may be classes
        if (const std::string table = labels_table(root); !table.empty()) {
            refuse(root, fmt::format("the splits {} without subfolders, and a table", fmt::join(names, ", ")),
                   fmt::format("give the table: \"{}\"", table));
        }
        return;
    }
    const auto train = std::ranges::find_if(nested, [](const auto& name) { return name.starts_with("train"); });
    const std::string path = (fs::path(root) / (train == nested.end() ? nested.front() : *train)).string();
    const std::string val =
        nested.size() > 1
            ? "another of them"
            : fmt::format("\"10%\" of it: `stoker predict` is for images without classes, such as those in {}",
                          flat.front());
    refuse(root,
           fmt::format("the splits {} with folders of their own{}", fmt::join(names, ", "),
                       flat.empty() ? "" : fmt::format(" in {}", fmt::join(nested, ", "))),
           fmt::format("train on \"{}\", and validate on {}", path, val));
}

}  // namespace

std::string labels_table(const fs::path& folder) {
    const auto rank = [](const std::string& name) {
        const std::string lower = lower_case(name);
        const bool of_test = lower.starts_with("test") || lower.find("submission") != std::string::npos;
        return std::pair(lower.starts_with("train") ? 0 : of_test ? 2 : 1, name);
    };
    std::error_code error;
    std::string best;
    for (fs::directory_iterator entry(folder, error), end; !error && entry != end; entry.increment(error)) {
        const std::string name = entry->path().filename().string();
        if (lower_case(name).ends_with(".csv") && (best.empty() || rank(name) < rank(best))) {
            best = name;
        }
    }
    return best.empty() ? "" : (folder / best).string();
}

namespace {

// A class whose only picture hides its recordings would otherwise be one of a single sample.
void check_one_kind(const std::string& root, const std::vector<std::string>& names,
                    const std::vector<std::vector<WalkedFolder>>& classes) {
    std::string picture;
    std::string recording;
    bool hides = false;
    for (std::size_t i = 0; i < classes.size(); ++i) {
        for (const WalkedFolder& folder : classes[i]) {
            for (const std::string& name : folder.images) {
                (is_recording_name(name) ? recording : picture) = path_in(folder, name);
            }
            hides = hides || std::ranges::any_of(folder.others, is_recording_name);
        }
    }
    if (hides && !picture.empty() && !recording.empty()) {
        refuse(root, fmt::format("{} in one of {} classes, and {} in another", picture, names.size(), recording),
               "move the pictures out of folders of videos or sounds");
    }
}

}  // namespace

FolderIndex FolderIndex::make(const fs::path& root, int threads) {
    Listing listing;
    listing.top = walk_folder(root, "");
    const std::vector<std::string>& names = listing.top.folders;
    if (names.empty()) {
        const std::int64_t images = std::ssize(listing.top.images);
        refuse(root.string(), fmt::format("no subfolder and {}", pluralize(images, "image")),
               images == 0 ? "" : "move the images into a subfolder for each class");
    }
    listing.classes.resize(names.size());
    const auto walk = [&](std::int64_t begin, std::int64_t end) {
        for (auto at = static_cast<std::size_t>(begin); at < static_cast<std::size_t>(end); ++at) {
            listing.classes[at] = walk_class(root, names[at]);
        }
    };
    parallel_for(threads, std::ssize(names), 1, walk);
    std::ranges::for_each(listing.classes, choose_images);
    check_one_kind(root.string(), names, listing.classes);
    LeftOut left_out;
    for (const std::string& name : listing.top.images) {
        left_out.add_loose_image(name);
    }
    listing.each_folder([&](const WalkedFolder& folder) {
        for (const std::string& name : folder.unsupported) {
            left_out.add_unsupported_image(path_in(folder, name));
        }
        for (const std::string& name : folder.others) {
            if (is_recording_name(name)) {
                left_out.add_other_file(path_in(folder, name));
            }
        }
    });
    listing.left_out = left_out.text();
    check_no_splits(root.string(), names, listing.classes);
    check_filled(root.string(), listing.top, listing.classes, left_out.unsupported_images());
    auto index = parse(serialize(listing));
    if (!index) {
        throw InternalError({.where = root.string(), .expected = "a listing", .got = "a damaged one"});
    }
    return std::move(*index);
}

Buffer FolderIndex::serialize(const Listing& listing) {
    Header header;
    std::vector<FolderStamp> stamps;
    std::vector<std::string> texts = listing.top.folders;
    header.classes = texts.size();
    listing.each_folder([&](const WalkedFolder& folder) {
        stamps.push_back(folder.stamp);
        texts.push_back(folder.path);
        header.links += folder.links.size();
    });
    header.folders = stamps.size();
    if (header.links > kMaxLinks) {
        header.links = 0;
        stamps[0] = {};  // never older than any time: not cached
    } else {
        listing.each_folder([&](const WalkedFolder& folder) {
            for (const std::string& name : folder.links) {
                texts.push_back(path_in(folder, name));
            }
        });
    }
    texts.push_back(listing.left_out);
    std::string all_texts;
    std::vector<std::uint64_t> text_begins = {0};
    for (const std::string& text : texts) {
        all_texts += text;
        text_begins.push_back(all_texts.size());
    }
    std::string names;
    std::vector<std::uint64_t> begins = {0};
    std::vector<std::int32_t> labels;
    for (std::size_t label = 0; label < listing.classes.size(); ++label) {
        for (const WalkedFolder& folder : listing.classes[label]) {
            for (const std::string& name : folder.images) {
                names.append(folder.path).append("/").append(name);
                begins.push_back(names.size());
                labels.push_back(static_cast<std::int32_t>(label));
            }
        }
    }
    header.samples = labels.size();
    header.texts_bytes = all_texts.size();
    header.names_bytes = names.size();
    Buffer bytes;
    bytes.resize(static_cast<std::size_t>(Parts(nullptr, header).size));
    std::memset(bytes.data(), 0, bytes.size());
    const Parts parts(bytes.data(), header);
    *parts.head = header;
    std::ranges::copy(begins, parts.begins);
    std::ranges::copy(labels, parts.labels);
    std::ranges::copy(stamps, parts.stamps);
    std::ranges::copy(text_begins, parts.text_begins);
    std::ranges::copy(all_texts, parts.texts);
    std::ranges::copy(names, parts.names);
    return bytes;
}

// Empty for damaged bytes.
std::optional<FolderIndex> FolderIndex::parse(Buffer bytes) {
    Header header;
    if (bytes.size() < sizeof header) {
        return std::nullopt;
    }
    std::memcpy(&header, bytes.data(), sizeof header);
    for (const std::uint64_t count :
         {header.samples, header.classes, header.folders, header.links, header.names_bytes, header.texts_bytes}) {
        if (count > bytes.size()) {
            return std::nullopt;
        }
    }
    FolderIndex index;
    if (Parts(nullptr, header).size != bytes.size()) {
        return std::nullopt;
    }
    const Parts parts(bytes.data(), header);
    index.begins_ = {parts.begins, header.samples + 1};
    index.labels_ = {parts.labels, header.samples};
    index.stamps_ = {parts.stamps, header.folders};
    index.text_begins_ = {parts.text_begins, header.texts() + 1};
    index.texts_ = {parts.texts, header.texts_bytes};
    index.names_ = {parts.names, header.names_bytes};
    if (index.begins_.back() != header.names_bytes || index.text_begins_.back() != header.texts_bytes ||
        !std::ranges::is_sorted(index.begins_) || !std::ranges::is_sorted(index.text_begins_)) {
        return std::nullopt;
    }
    for (std::size_t at = 0; at < header.classes; ++at) {
        index.classes_.emplace_back(index.text(at));
    }
    index.links_ = header.links;
    index.left_out_ = index.text(header.texts() - 1);
    index.bytes_ = std::move(bytes);
    return index;
}

std::string_view FolderIndex::text(std::size_t at) const {
    return texts_.substr(text_begins_[at], text_begins_[at + 1] - text_begins_[at]);
}

bool FolderIndex::unchanged(const fs::path& root) const {
    std::size_t at = classes_.size();
    for (const FolderStamp& stamp : stamps_) {
        const std::string_view path = text(at++);
        if (folder_stamp(path.empty() ? root : root / path) != stamp) {
            return false;
        }
    }
    for (std::size_t end = at + links_; at < end; ++at) {
        if (is_folder(root / text(at))) {
            return false;
        }
    }
    return !stamps_.empty();
}

bool FolderIndex::older_than(std::int64_t time_ns) const {
    return std::ranges::all_of(stamps_, [&](const FolderStamp& stamp) {
        return stamp != FolderStamp{} && std::max(stamp.modified_ns, stamp.changed_ns) < time_ns;
    });
}

FolderIndex FolderIndex::list(const fs::path& root) {
    return make(root, 1);
}

FolderIndex FolderIndex::open(const fs::path& root, const FolderIndexOptions& options) {
    std::error_code unknown;  // a missing root is reported by the listing
    const std::string name = fs::canonical(root, unknown).string();
    const std::string stamp = fmt::format("{} {}", kVersion, name);
    if (auto cached = unknown ? std::nullopt : read_user_cache(kCacheKind, name, stamp)) {
        auto index = parse(std::move(*cached));
        if (index && index->unchanged(root)) {
            index->from_cache_ = true;
            return std::move(*index);
        }
    }
    const std::int64_t newest_change = now_ns() - options.min_age_ns;
    FolderIndex index = make(root, cpu_cores().usable);
    if (!unknown && index.size() >= options.min_cached_files && index.older_than(newest_change)) {
        write_user_cache(kCacheKind, name, stamp, index.bytes_.bytes());  // on failure the next start lists again
    }
    return index;
}

}  // namespace stoker
