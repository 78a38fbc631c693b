// One class for each service turns a folder into requests for pages. PageReader sends them, with retries and limits.
#include "stoker/io/remote/remote_listing.h"

#include <algorithm>
#include <fmt/format.h>
#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <utility>

#include "stoker/base/error.h"
#include "stoker/base/pluralize.h"
#include "stoker/base/url_secrets.h"
#include "stoker/io/remote/hub_client.h"
#include "stoker/io/remote/hub_name.h"
#include "stoker/io/remote/listing_text.h"
#include "stoker/io/remote/refusal.h"
#include "stoker/io/remote/remote_file.h"
#include "stoker/io/remote/remote_pattern.h"
#include "stoker/io/remote/s3_access.h"
#include "stoker/io/remote/url.h"

namespace stoker {
namespace {

// A file with its path below the folder.
struct Found {
    std::string below;
    RemoteEntry entry;
};

// A folder of a service, whose listing is read from the first page on.
class Folder {
  public:
    Folder() = default;
    Folder(const Folder&) = delete;
    Folder& operator=(const Folder&) = delete;
    virtual ~Folder() = default;

    virtual std::string url() const = 0;
    virtual HttpAnswer ask(HttpClient& client, HttpRequest request) = 0;  // for the current page
    virtual bool adapt(const HttpAnswer& /*answer*/) { return false; }    // as RemoteAccess::adapt
    virtual std::string hint(const HttpAnswer& answer) const = 0;
    virtual std::optional<ListingPage> parse(std::string_view text) const = 0;
    virtual bool turn(const HttpAnswer& answer, const ListingPage& page) = 0;  // false after the last page
    virtual std::optional<Found> found(const ListedFile& file) const = 0;      // empty: not below the folder
};

// Keys have no folders. Those that begin with the folder's name and `start`, the beginning of a name, are asked for.
class Bucket final : public Folder {
  public:
    Bucket(const std::string& name, std::string_view start, bool deep)
        : access_(name, true),
          scheme_(name.substr(0, name.find("://") + 3)),
          folder_(access_.name().key),
          start_(start),
          deep_(deep) {
        folder_ += folder_.empty() || folder_.ends_with('/') ? "" : "/";
    }

    std::string url() const override { return access_.url(); }
    bool adapt(const HttpAnswer& answer) override { return access_.adapt(answer); }
    std::string hint(const HttpAnswer& answer) const override { return access_.hint(answer); }
    std::optional<ListingPage> parse(std::string_view text) const override { return parse_bucket_listing(text); }

    HttpAnswer ask(HttpClient& client, HttpRequest request) override {
        std::string query;  // sorted, as the signature requires
        query += token_.empty() ? "" : fmt::format("continuation-token={}&", percent_encode(token_, ""));
        query += deep_ ? "" : "delimiter=%2F&";
        query += fmt::format("encoding-type=url&list-type=2&prefix={}", percent_encode(folder_ + start_, ""));
        return access_.list(client, std::move(request), query);
    }

    bool turn(const HttpAnswer& /*answer*/, const ListingPage& page) override {
        token_ = page.next;
        return !token_.empty();
    }

    std::optional<Found> found(const ListedFile& file) const override {
        if (!file.path.starts_with(folder_)) {
            return std::nullopt;
        }
        return Found{
            .below = file.path.substr(folder_.size()),
            .entry = {.name = fmt::format("{}{}/{}", scheme_, access_.name().bucket, file.path), .size = file.size}};
    }

  private:
    S3Access access_;
    std::string scheme_;
    std::string folder_;
    std::string start_;
    bool deep_;
    std::string token_;
};

class HubFolder final : public Folder {
  public:
    HubFolder(const std::string& name, bool deep)
        : name_(parse_hub_name(name)), settings_(find_hub_settings(name)), deep_(deep) {
        begin();
    }

    std::string url() const override { return url_; }
    std::string hint(const HttpAnswer& answer) const override { return hub_hint(answer, settings_); }
    std::optional<ListingPage> parse(std::string_view text) const override { return parse_tree_listing(text); }

    HttpAnswer ask(HttpClient& client, HttpRequest request) override {
        HubAnswer first = ask_hub(client, request, settings_, url_);
        if (first_page_ && lacks_repository(first.answer) && place_ + 1 < name_.places.size()) {
            ++place_;
            begin();
            HubAnswer second = ask_hub(client, request, settings_, url_);
            if (!lacks_repository(second.answer)) {
                return std::move(second.answer);
            }
            --place_;
            begin();
        }
        return std::move(first.answer);
    }

    bool turn(const HttpAnswer& answer, const ListingPage& /*page*/) override {
        first_page_ = false;
        const std::string next = next_link(answer.header("link").value_or(""));
        if (next.empty()) {
            return false;
        }
        if (!is_url(next) || !same_origin(next, settings_.endpoint)) {
            throw IoError({.where = "HF_ENDPOINT",
                           .expected = "listings whose pages are all at the same host",
                           .got = fmt::format("a next page at {}", shown_url(next))});
        }
        if (!seen_.insert(next).second) {
            throw IoError(
                {.where = "HF_ENDPOINT", .expected = "another page of the listing", .got = "the same one again"});
        }
        url_ = next;
        return true;
    }

    std::optional<Found> found(const ListedFile& file) const override {
        const HubPlace& place = name_.places[place_];
        const std::string folder = place.path.empty() ? "" : place.path + "/";
        if (!file.path.starts_with(folder)) {
            return std::nullopt;
        }
        return Found{.below = file.path.substr(folder.size()),
                     .entry = {.name = hub_file_name(name_, place, file.path), .size = file.size}};
    }

  private:
    void begin() { url_ = hub_tree_url(settings_.endpoint, name_.places[place_], name_.revision, deep_); }

    HubName name_;
    HubSettings settings_;
    bool deep_;
    bool first_page_ = true;
    std::size_t place_ = 0;
    std::string url_;
    std::set<std::string> seen_;
};

class PageReader {
  public:
    PageReader(const std::string& name, const RemoteOptions& options, const ListingLimits& limits)
        : name_(shown_url(name)), options_(options), limits_(limits), client_(shared_remote().client) {}

    std::vector<Found> read(Folder& folder) const {
        std::vector<Found> files;
        std::size_t name_bytes = 0;
        for (std::size_t pages = 1;; ++pages) {
            const HttpAnswer answer = get(folder);
            const auto page = folder.parse({reinterpret_cast<const char*>(answer.body.data()), answer.body.size()});
            if (!page) {
                throw IoError({.where = name_, .expected = "a listing of files", .got = "other text"});
            }
            for (const ListedFile& file : page->files) {
                auto found = folder.found(file);
                if (!found) {
                    throw IoError({.where = name_,
                                   .expected = "the files of this folder",
                                   .got = fmt::format("\"{}\" among them", file.path)});
                }
                name_bytes += found->entry.name.size();
                files.push_back(std::move(*found));
            }
            if (files.size() > limits_.files || name_bytes > limits_.name_bytes) {
                refuse_length(pluralize(static_cast<std::int64_t>(limits_.files), "file"));
            }
            if (!folder.turn(answer, *page)) {
                return sorted(std::move(files));
            }
            if (pages == limits_.pages) {
                refuse_length(pluralize(static_cast<std::int64_t>(limits_.pages), "page"));
            }
        }
    }

  private:
    // An answer of status 200 with its whole body.
    HttpAnswer get(Folder& folder) const {
        Retry retry(retry_limits(*client_, folder.url(), options_));
        for (;;) {
            HttpRequest request = blank_request(options_);
            request.whole_bytes = limits_.page_bytes;
            HttpAnswer answer = folder.ask(*client_, std::move(request));
            if (answer.status == 200 && answer.failure.empty()) {
                return answer;
            }
            if (folder.adapt(answer)) {
                continue;
            }
            if (answer.status == 200 && answer.refused) {
                refuse_length(fmt::format("{} MiB a page", limits_.page_bytes >> 20));
            }
            const std::string got = answer.failure.empty() ? status_text(answer) : answer.failure;
            const bool cut = answer.status == 200;
            retry.set_patience(retry_limits(*client_, folder.url(), options_).patience);
            const auto after = answer.header("retry-after");
            if (!(cut || may_pass(answer)) || !retry.pause(after ? parse_retry_after(*after) : std::nullopt)) {
                throw IoError({.where = name_,
                               .expected = "a listing of files",
                               .got = got,
                               .hint = answer.hint.empty() ? folder.hint(answer) : answer.hint});
            }
        }
    }

    [[noreturn]] void refuse_length(const std::string& most) const {
        throw IoError({.where = name_,
                       .expected = fmt::format("a listing of at most {}", most),
                       .got = "a longer one",
                       .hint = "name a folder or a pattern of fewer files"});
    }

    // Without files that two pages have, as pages may if files are added meanwhile.
    static std::vector<Found> sorted(std::vector<Found> files) {
        const auto name = [](const Found& file) -> const std::string& { return file.entry.name; };
        std::ranges::sort(files, {}, name);
        const auto same = [&](const Found& a, const Found& b) { return name(a) == name(b); };
        files.erase(std::unique(files.begin(), files.end(), same), files.end());
        return files;
    }

    std::string name_;
    RemoteOptions options_;
    ListingLimits limits_;
    std::shared_ptr<HttpClient> client_;
};

std::unique_ptr<Folder> folder_of(const std::string& name, std::string_view start, bool deep) {
    if (!can_list(name)) {
        throw Unsupported({.where = shown_url(name),
                           .expected = "a folder behind s3://, gs:// or hf://",
                           .got = "a name whose files cannot be listed"});
    }
    if (name.starts_with("hf://")) {
        return std::make_unique<HubFolder>(name, deep);
    }
    return std::make_unique<Bucket>(name, start, deep);
}

}  // namespace

bool can_list(std::string_view name) {
    return names_object(name);
}

std::vector<RemoteEntry> list_remote(const std::string& folder, const RemoteOptions& options,
                                     const ListingLimits& limits) {
    std::vector<RemoteEntry> entries;
    for (Found& file : PageReader(folder, options, limits).read(*folder_of(folder, "", true))) {
        entries.push_back(std::move(file.entry));
    }
    return entries;
}

std::vector<RemoteEntry> match_remote(const std::string& pattern, const RemoteOptions& options,
                                      const ListingLimits& limits) {
    const std::size_t star = std::min(pattern.find('*'), pattern.size());
    const std::size_t slash = pattern.rfind('/', star);
    const std::string folder = pattern.substr(0, slash == std::string::npos ? 0 : slash);
    const std::string below = pattern.substr(std::min(folder.size() + 1, pattern.size()));
    const RemotePattern matcher(below);
    std::vector<RemoteEntry> entries;
    const auto files = PageReader(pattern, options, limits)
                           .read(*folder_of(folder, below.substr(0, below.find('*')), matcher.has_folders()));
    for (const Found& file : files) {
        if (matcher.matches(file.below)) {
            entries.push_back(file.entry);
        }
    }
    if (entries.empty()) {
        throw IoError({.where = shown_url(pattern),
                       .expected = "files that match the pattern",
                       .got = fmt::format("none of {}", pluralize(static_cast<std::int64_t>(files.size()), "file"))});
    }
    return entries;
}

}  // namespace stoker
