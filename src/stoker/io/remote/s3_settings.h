// S3's credentials, region and endpoint: from the environment variables that Amazon's programs read, then from their
// credentials and config files. Nothing is requested over a network.
#pragma once

#include <optional>
#include <string>

#include "stoker/io/remote/setting_sources.h"

namespace stoker {

struct S3Credentials {
    std::string access_key;
    std::string secret_key;
    std::string session_token = {};  // empty: none
};

struct S3Settings {
    std::optional<S3Credentials> credentials = {};  // none: requests are not signed
    std::string bearer = {};                        // a token that is sent in place of a signature; empty: none
    std::string region = {};                        // empty: not configured
    std::string endpoint = {};                      // empty: Amazon's
    bool region_is_open = true;                     // S3 may still correct it (S3Access::adapt)
};

// AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY, AWS_SESSION_TOKEN, AWS_REGION, AWS_DEFAULT_REGION, AWS_ENDPOINT_URL_S3,
// AWS_ENDPOINT_URL, AWS_PROFILE, AWS_SHARED_CREDENTIALS_FILE, AWS_CONFIG_FILE and HOME; with
// AWS_NO_SIGN_REQUEST=1 the credentials are left out. Throws InvalidArgument if only one of the two keys is set, and
// for an AWS_PROFILE that neither file has.
S3Settings find_s3_settings(const Variables& variables);
S3Settings find_s3_settings();  // of this process

// The pair of keys; nothing if both are empty. Throws InvalidArgument, which names the place `where` and the variable
// that turns signatures off, if one of the two is missing.
std::optional<S3Credentials> make_credentials(std::string access, std::string secret, std::string token,
                                              const std::string& where, const char* unsigned_by);

}  // namespace stoker
