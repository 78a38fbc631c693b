// Precedence: variables before files, the credentials file before the config file, S3's endpoint before that of all
// services.
#include "stoker/io/remote/s3_settings.h"

#include <algorithm>
#include <cstdlib>
#include <fmt/format.h>

#include "stoker/base/ascii.h"
#include "stoker/base/error.h"
#include "stoker/base/file.h"

namespace stoker {
namespace {

namespace fs = std::filesystem;

using Section = std::map<std::string, std::string>;

std::string_view trimmed(std::string_view text) {
    constexpr std::string_view kSpace = " \t\r\n";
    const std::size_t begin = text.find_first_not_of(kSpace);
    return begin == std::string_view::npos ? std::string_view()
                                           : text.substr(begin, text.find_last_not_of(kSpace) + 1 - begin);
}

IniSections read_ini(const std::string& named, const Variables& variables, std::string_view usual) {
    fs::path path = named;
    if (named.empty() || named.starts_with("~/")) {
        const std::string home = variables("HOME");
        if (home.empty()) {
            return {};
        }
        path = fs::path(home) / (named.empty() ? fs::path(".aws") / usual : fs::path(named.substr(2)));
    }
    std::error_code unknown;
    return fs::is_regular_file(path, unknown) ? parse_ini(read_text(path)) : IniSections();
}

std::string value_of(const Section* section, const std::string& key) {
    if (section == nullptr) {
        return "";
    }
    const auto found = section->find(key);
    return found == section->end() ? "" : found->second;
}

const Section* find_section(const IniSections& sections, const std::string& name) {
    const auto found = sections.find(name);
    return found == sections.end() ? nullptr : &found->second;
}

template <typename... More>
std::string first_of(std::string first, More... more) {
    for (std::string* next : std::initializer_list<std::string*>{&more...}) {
        if (first.empty()) {
            first = *next;
        }
    }
    return first;
}

bool is_yes(std::string_view text) {
    const std::string lower = lower_case(text);
    return lower == "1" || lower == "true" || lower == "yes";
}

void check_text(const std::string& text, const char* what) {
    if (std::any_of(text.begin(), text.end(),
                    [](char c) { return static_cast<unsigned char>(c) <= ' ' || c == 0x7f; })) {
        throw InvalidArgument({.where = what, .expected = "no spaces and control characters", .got = "some"});
    }
}

std::optional<S3Credentials> make_credentials(std::string access, std::string secret, std::string token,
                                              const std::string& where) {
    if (access.empty() && secret.empty()) {
        return std::nullopt;
    }
    if (access.empty() || secret.empty()) {
        throw InvalidArgument({.where = where,
                               .expected = "an access key and a secret key",
                               .got = access.empty() ? "the secret key alone" : "the access key alone",
                               .hint = "set both, or AWS_NO_SIGN_REQUEST=1 for public data"});
    }
    check_text(access, "the S3 access key");
    check_text(token, "the S3 session token");
    return S3Credentials{std::move(access), std::move(secret), std::move(token)};
}

std::optional<S3Credentials> credentials_in(const Section* section, const std::string& where) {
    return make_credentials(value_of(section, "aws_access_key_id"), value_of(section, "aws_secret_access_key"),
                            value_of(section, "aws_session_token"), where);
}

std::string configured_endpoint(const IniSections& config, const Section* profile) {
    const Section* services = find_section(config, "services " + value_of(profile, "services"));
    return first_of(value_of(services, "s3.endpoint_url"), value_of(profile, "endpoint_url"));
}

}  // namespace

IniSections parse_ini(std::string_view text) {
    IniSections sections;
    Section* section = nullptr;
    std::string above;  // the last setting that was not indented
    while (!text.empty()) {
        const std::string_view line = text.substr(0, text.find('\n'));
        text.remove_prefix(std::min(text.size(), line.size() + 1));
        const std::string_view content = trimmed(line);
        if (content.empty() || content.front() == '#' || content.front() == ';') {
            continue;
        }
        if (content.front() == '[') {
            section = content.back() == ']' ? &sections[std::string(trimmed(content.substr(1, content.size() - 2)))]
                                            : nullptr;
            above.clear();
            continue;
        }
        const std::size_t equals = content.find('=');
        if (section == nullptr || equals == std::string_view::npos) {
            continue;
        }
        const std::string key(trimmed(content.substr(0, equals)));
        const std::string value(trimmed(content.substr(equals + 1)));
        const bool indented = (line.front() == ' ' || line.front() == '\t') && !above.empty();
        (*section)[indented ? above + "." + key : key] = value;
        if (!indented) {
            above = key;
        }
    }
    return sections;
}

S3Settings find_s3_settings(const Variables& variables) {
    const IniSections shared = read_ini(variables("AWS_SHARED_CREDENTIALS_FILE"), variables, "credentials");
    const IniSections config = read_ini(variables("AWS_CONFIG_FILE"), variables, "config");
    const std::string chosen = first_of(variables("AWS_PROFILE"), variables("AWS_DEFAULT_PROFILE"));
    const std::string name = chosen.empty() ? "default" : chosen;
    const Section* keys = find_section(shared, name);
    const Section* profile = find_section(config, "profile " + name);
    if (profile == nullptr && name == "default") {
        profile = find_section(config, name);
    }
    if (!chosen.empty() && keys == nullptr && profile == nullptr) {
        throw InvalidArgument(
            {.where = "AWS_PROFILE", .expected = "a profile of the AWS credentials or config file", .got = chosen});
    }
    S3Settings settings{.credentials = {},
                        .region = first_of(variables("AWS_REGION"), variables("AWS_DEFAULT_REGION"),
                                           value_of(profile, "region"), value_of(keys, "region")),
                        .endpoint = first_of(variables("AWS_ENDPOINT_URL_S3"), variables("AWS_ENDPOINT_URL"),
                                             configured_endpoint(config, profile), value_of(keys, "endpoint_url"))};
    if (!is_yes(variables("AWS_NO_SIGN_REQUEST"))) {
        settings.credentials = make_credentials(variables("AWS_ACCESS_KEY_ID"), variables("AWS_SECRET_ACCESS_KEY"),
                                                variables("AWS_SESSION_TOKEN"), "AWS_ACCESS_KEY_ID");
        if (!settings.credentials) {
            settings.credentials = credentials_in(keys, fmt::format("AWS credentials file, profile {}", name));
        }
        if (!settings.credentials) {
            settings.credentials = credentials_in(profile, fmt::format("AWS config file, profile {}", name));
        }
    }
    check_text(settings.region, "the S3 region");
    return settings;
}

S3Settings find_s3_settings() {
    return find_s3_settings([](const std::string& name) -> std::string {
        const char* value = std::getenv(name.c_str());  // NOLINT(concurrency-mt-unsafe): nothing here sets variables
        return value == nullptr ? "" : std::string(trimmed(value));
    });
}

}  // namespace stoker
