// Precedence: variables before files, the credentials file before the config file, S3's endpoint before that of all
// services.
#include "stoker/io/remote/s3_settings.h"

#include <fmt/format.h>

#include "stoker/base/error.h"

namespace stoker {
namespace {

constexpr const char* kUnsigned = "AWS_NO_SIGN_REQUEST";

template <typename... More>
std::string first_of(std::string first, More... more) {
    for (std::string* next : std::initializer_list<std::string*>{&more...}) {
        if (first.empty()) {
            first = *next;
        }
    }
    return first;
}

std::optional<S3Credentials> credentials_in(const IniSection* section, const std::string& where) {
    return make_credentials(value_of(section, "aws_access_key_id"), value_of(section, "aws_secret_access_key"),
                            value_of(section, "aws_session_token"), where, kUnsigned);
}

std::string configured_endpoint(const IniSections& config, const IniSection* profile) {
    const IniSection* services = find_section(config, "services " + value_of(profile, "services"));
    return first_of(value_of(services, "s3.endpoint_url"), value_of(profile, "endpoint_url"));
}

}  // namespace

std::optional<S3Credentials> make_credentials(std::string access, std::string secret, std::string token,
                                              const std::string& where, const char* unsigned_by) {
    if (access.empty() && secret.empty()) {
        return std::nullopt;
    }
    if (access.empty() || secret.empty()) {
        throw InvalidArgument({.where = where,
                               .expected = "an access key and a secret key",
                               .got = access.empty() ? "the secret key alone" : "the access key alone",
                               .hint = fmt::format("set both, or {}=1 for public data", unsigned_by)});
    }
    check_header_text(access, "the access key");
    check_header_text(token, "the session token");
    return S3Credentials{std::move(access), std::move(secret), std::move(token)};
}

S3Settings find_s3_settings(const Variables& variables) {
    const IniSections shared = read_ini(variables("AWS_SHARED_CREDENTIALS_FILE"), variables, ".aws/credentials");
    const IniSections config = read_ini(variables("AWS_CONFIG_FILE"), variables, ".aws/config");
    const std::string chosen = first_of(variables("AWS_PROFILE"), variables("AWS_DEFAULT_PROFILE"));
    const std::string name = chosen.empty() ? "default" : chosen;
    const IniSection* keys = find_section(shared, name);
    const IniSection* profile = find_section(config, "profile " + name);
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
    if (!is_yes(variables(kUnsigned))) {
        settings.credentials = make_credentials(variables("AWS_ACCESS_KEY_ID"), variables("AWS_SECRET_ACCESS_KEY"),
                                                variables("AWS_SESSION_TOKEN"), "AWS_ACCESS_KEY_ID", kUnsigned);
        if (!settings.credentials) {
            settings.credentials = credentials_in(keys, fmt::format("AWS credentials file, profile {}", name));
        }
        if (!settings.credentials) {
            settings.credentials = credentials_in(profile, fmt::format("AWS config file, profile {}", name));
        }
    }
    check_header_text(settings.region, "the S3 region");
    return settings;
}

S3Settings find_s3_settings() {
    return find_s3_settings(process_variable);
}

}  // namespace stoker
