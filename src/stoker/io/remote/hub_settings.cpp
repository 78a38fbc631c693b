#include "stoker/io/remote/hub_settings.h"

#include <cstdint>
#include <filesystem>
#include <fmt/format.h>

#include "stoker/base/error.h"
#include "stoker/base/file.h"
#include "stoker/base/url_secrets.h"
#include "stoker/io/remote/url.h"

namespace stoker {
namespace {

namespace fs = std::filesystem;

constexpr std::uintmax_t kMostTokenBytes = 4096;

std::string endpoint_of(const std::string& set) {
    const Url url = parse_url(set.empty() ? "https://huggingface.co" : set);
    if (url.scheme != "http" && url.scheme != "https") {
        throw InvalidArgument({.where = "HF_ENDPOINT", .expected = "http:// or https://", .got = shown_url(set)});
    }
    const std::string path = url.path.substr(0, url.path.find_last_not_of('/') + 1);
    return fmt::format("{}://{}{}", url.scheme, url.authority, path);
}

fs::path in_home(const std::string& path, const Variables& variables) {
    return path.starts_with("~/") ? fs::path(variables("HOME")) / path.substr(2) : fs::path(path);
}

fs::path token_file(const Variables& variables) {
    if (const std::string file = variables("HF_TOKEN_PATH"); !file.empty()) {
        return in_home(file, variables);
    }
    if (const std::string home = variables("HF_HOME"); !home.empty()) {
        return in_home(home, variables) / "token";
    }
    const std::string cache = variables("XDG_CACHE_HOME");
    return (cache.empty() ? in_home("~/.cache", variables) : in_home(cache, variables)) / "huggingface" / "token";
}

std::string token_of(const Variables& variables) {
    for (const char* name : {"HF_TOKEN", "HUGGING_FACE_HUB_TOKEN"}) {
        if (std::string token = variables(name); !token.empty()) {
            return token;
        }
    }
    const fs::path file = token_file(variables);
    std::error_code unknown;
    const bool readable =
        file.is_absolute() && fs::is_regular_file(file, unknown) && fs::file_size(file, unknown) <= kMostTokenBytes;
    return readable ? std::string(trimmed(read_text(file))) : "";
}

}  // namespace

HubSettings find_hub_settings(const Variables& variables, const std::string& name) {
    if (is_yes(variables("HF_HUB_OFFLINE"))) {
        throw Unsupported({.where = shown_url(name),
                           .expected = "a data set of the hub",
                           .got = "HF_HUB_OFFLINE, which forbids its use",
                           .hint = "unset it, or give the path of a copy"});
    }
    HubSettings settings{.endpoint = endpoint_of(variables("HF_ENDPOINT")), .token = ""};
    if (!is_yes(variables("HF_HUB_DISABLE_IMPLICIT_TOKEN")) && may_get_token(settings.endpoint)) {
        settings.token = token_of(variables);
        check_header_text(settings.token, "the hub's token");
    }
    return settings;
}

HubSettings find_hub_settings(const std::string& name) {
    return find_hub_settings(process_variable, name);
}

}  // namespace stoker
