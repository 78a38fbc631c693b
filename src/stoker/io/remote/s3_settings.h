// Where S3's credentials, region and endpoint come from: the variables of the environment that Amazon's own programs
// read, then their credentials and config files. Nothing is asked of a network.
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
    std::string region = {};                        // empty: not set anywhere
    std::string endpoint = {};                      // empty: Amazon's
    bool region_is_open = true;                     // a bucket may still tell that it is in another one
};

// A variable's value; empty where it is not set.
using Variables = std::function<std::string(const std::string&)>;

// AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY, AWS_SESSION_TOKEN, AWS_REGION, AWS_DEFAULT_REGION, AWS_ENDPOINT_URL_S3,
// AWS_ENDPOINT_URL, AWS_PROFILE, AWS_SHARED_CREDENTIALS_FILE, AWS_CONFIG_FILE and HOME; AWS_NO_SIGN_REQUEST=1 leaves
// credentials out. Throws InvalidArgument for half of a pair of keys, and for an AWS_PROFILE that no file has.
S3Settings find_s3_settings(const Variables& variables);
S3Settings find_s3_settings();  // of this process

// The sections of such a file, each with its settings. An indented setting belongs to the one above:
// "s3.endpoint_url". What is not understood is passed over, as Amazon's programs do.
using IniSections = std::map<std::string, std::map<std::string, std::string>>;
IniSections parse_ini(std::string_view text);

}  // namespace stoker
