#include "stoker/io/remote/hub_name.h"

#include <algorithm>
#include <fmt/format.h>

#include "stoker/base/error.h"
#include "stoker/base/url_secrets.h"
#include "stoker/io/remote/url.h"

namespace stoker {
namespace {

constexpr std::string_view kScheme = "hf://";
constexpr std::string_view kKind = "datasets/";
constexpr std::string_view kForm = "hf://datasets/ORG/NAME/PATH or hf://datasets/ORG/NAME@REVISION/PATH";

[[noreturn]] void refuse(std::string_view name, std::string got, std::string hint = "") {
    throw InvalidArgument(
        {.where = shown_url(name), .expected = std::string(kForm), .got = std::move(got), .hint = std::move(hint)});
}

bool is_word(char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
}

bool is_repository_part(std::string_view text) {
    return !text.empty() && text.size() <= 96 && text != "." && text != ".." &&
           std::all_of(text.begin(), text.end(), [](char c) { return is_word(c) || c == '-' || c == '.'; });
}

// Parts between slashes that a server would not take as names.
bool is_plain_path(std::string_view path) {
    while (!path.empty()) {
        const std::string_view part = path.substr(0, path.find('/'));
        path.remove_prefix(std::min(path.size(), part.size() + 1));
        if (part.empty() || part == "." || part == "..") {
            return false;
        }
    }
    return true;
}

// The length of the revision that the text after '@' begins with.
std::size_t revision_bytes(std::string_view text) {
    for (const std::string_view start : {std::string_view("refs/convert/"), std::string_view("refs/pr/")}) {
        std::size_t end = start.size();
        while (text.starts_with(start) && end < text.size() && is_word(text[end])) {
            ++end;
        }
        if (end > start.size()) {
            return end;
        }
    }
    return std::min(text.find('/'), text.size());
}

void take_revision(std::string_view name, std::string_view text, HubName& to) {
    to.written = text;
    to.revision = percent_decode(text);
    if (to.revision.starts_with('~')) {
        to.revision = "refs/convert/" + to.revision.substr(1);
    }
    if (text.empty() || text == "~" || !is_plain_path(to.revision)) {
        refuse(name, fmt::format("the revision \"{}\"", text));
    }
}

void check(std::string_view name, const HubPlace& place) {
    const std::string_view repository = place.repository;
    const std::size_t slash = std::min(repository.find('/'), repository.size());
    const bool good = is_repository_part(repository.substr(0, slash)) &&
                      (slash == repository.size() || is_repository_part(repository.substr(slash + 1)));
    if (!good) {
        refuse(name, fmt::format("the data set \"{}\"", repository));
    }
    if (!is_plain_path(place.path)) {
        refuse(name, fmt::format("the path \"{}\"", place.path));
    }
}

// The text after "hf://datasets/".
std::string_view after_kind(std::string_view name) {
    if (shown_url(name) != name) {
        refuse(name, "a user name or a password",
               "a token is read from HF_TOKEN, or from where `hf auth login` keeps it");
    }
    std::string_view rest = name.substr(std::min(name.size(), kScheme.size()));
    if (!name.starts_with(kScheme) || !rest.starts_with(kKind)) {
        throw Unsupported({.where = shown_url(name),
                           .expected = "a data set of the hub: hf://datasets/ORG/NAME",
                           .got = fmt::format("hf://{}", rest.substr(0, std::min(rest.find('/'), rest.size())))});
    }
    rest.remove_prefix(kKind.size());
    return rest.substr(0, rest.find_last_not_of('/') + 1);  // a folder's name may end with '/'
}

}  // namespace

HubName parse_hub_name(std::string_view name) {
    const std::string_view rest = after_kind(name);
    const std::size_t first = std::min(rest.find('/'), rest.size());
    const std::size_t second = first == rest.size() ? first : std::min(rest.find('/', first + 1), rest.size());
    const auto tail = [&](std::size_t at) { return std::string(rest.substr(std::min(at + 1, rest.size()))); };
    HubName parsed;
    if (const std::size_t at = rest.substr(0, second).find('@'); at != std::string_view::npos) {
        const std::string_view after = rest.substr(at + 1);
        const std::size_t size = revision_bytes(after);
        take_revision(name, after.substr(0, size), parsed);
        parsed.places = {{.repository = std::string(rest.substr(0, at)), .path = tail(at + 1 + size)}};
    } else {
        parsed.places = {{.repository = std::string(rest.substr(0, second)), .path = tail(second)}};
        if (first < rest.size()) {
            parsed.places.push_back({.repository = std::string(rest.substr(0, first)), .path = tail(first)});
        }
    }
    for (const HubPlace& place : parsed.places) {
        check(name, place);
    }
    return parsed;
}

std::string hub_file_url(const std::string& endpoint, const HubPlace& place, const std::string& revision) {
    return fmt::format("{}/{}{}/resolve/{}/{}", endpoint, kKind, place.repository, percent_encode(revision, ""),
                       percent_encode(place.path, "/"));
}

std::string hub_tree_url(const std::string& endpoint, const HubPlace& place, const std::string& revision,
                         bool recursive) {
    return fmt::format("{}/api/{}{}/tree/{}{}{}?recursive={}", endpoint, kKind, place.repository,
                       percent_encode(revision, ""), place.path.empty() ? "" : "/", percent_encode(place.path, ""),
                       recursive);
}

std::string hub_file_name(const HubName& name, const HubPlace& place, std::string_view path) {
    const bool ambiguous = name.written.empty() && place.repository.find('/') == std::string::npos;
    const std::string revision = ambiguous ? "main" : name.written;
    return fmt::format("{}{}{}{}{}/{}", kScheme, kKind, place.repository, revision.empty() ? "" : "@", revision, path);
}

}  // namespace stoker
