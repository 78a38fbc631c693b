// S3's credentials, region and endpoint: from the environment variables that Amazon's programs read, then from their
// credentials and config files. Nothing is requested over a network.
#pragma once

#include <filesystem>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>

namespace stoker {

struct S3Credentials {
    std::string access_key;
    std::string secret_key;
    std::string session_token = {};  // empty: none
};

struct S3Settings {
    std::optional<S3Credentials> credentials = {};  // none: requests are not signed
    std::string region = {};                        // empty: not configured
    std::string endpoint = {};                      // empty: Amazon's
    bool region_is_open = true;                     // S3 may still correct it (RemoteObject::switch_region)
};

// Returns the value of an environment variable; empty if it is not set.
using Variables = std::function<std::string(const std::string&)>;

// AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY, AWS_SESSION_TOKEN, AWS_REGION, AWS_DEFAULT_REGION, AWS_ENDPOINT_URL_S3,
// AWS_ENDPOINT_URL, AWS_PROFILE, AWS_SHARED_CREDENTIALS_FILE, AWS_CONFIG_FILE and HOME; with
// AWS_NO_SIGN_REQUEST=1 the credentials are left out. Throws InvalidArgument if only one of the two keys is set, and
// for an AWS_PROFILE that neither file has.
S3Settings find_s3_settings(const Variables& variables);
S3Settings find_s3_settings();  // of this process

// The sections of such a file with their settings. An indented setting belongs to the one above: "s3.endpoint_url".
// Lines that are not understood are ignored, as Amazon's programs do.
using IniSections = std::map<std::string, std::map<std::string, std::string>>;
IniSections parse_ini(std::string_view text);

}  // namespace stoker
