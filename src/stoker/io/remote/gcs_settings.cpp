#include "stoker/io/remote/gcs_settings.h"

#include "stoker/base/url_secrets.h"
#include "stoker/io/remote/url.h"

namespace stoker {
namespace {

constexpr const char* kUnsigned = "GS_NO_SIGN_REQUEST";

std::string endpoint_of(const std::string& emulator) {
    if (emulator.empty()) {
        return "https://storage.googleapis.com";
    }
    return is_url(emulator) ? emulator : "http://" + emulator;
}

std::string token_of(const Variables& variables) {
    const std::string token = variables("GCS_OAUTH_TOKEN");
    return token.empty() ? variables("GOOGLE_OAUTH_ACCESS_TOKEN") : token;
}

}  // namespace

S3Settings find_gcs_settings(const Variables& variables) {
    // Google takes any region; "auto" is the one that its documents use.
    S3Settings settings{
        .region = "auto", .endpoint = endpoint_of(variables("STORAGE_EMULATOR_HOST")), .region_is_open = false};
    if (is_yes(variables(kUnsigned))) {
        return settings;
    }
    settings.credentials = make_credentials(variables("GS_ACCESS_KEY_ID"), variables("GS_SECRET_ACCESS_KEY"), "",
                                            "GS_ACCESS_KEY_ID", kUnsigned);
    if (!settings.credentials && may_get_token(settings.endpoint)) {
        settings.bearer = token_of(variables);
        check_header_text(settings.bearer, "the token of Google Cloud Storage");
    }
    if (!settings.credentials && settings.bearer.empty()) {
        const IniSections boto = read_ini(variables("BOTO_CONFIG"), variables, ".boto");
        const IniSection* keys = find_section(boto, "Credentials");
        settings.credentials =
            make_credentials(value_of(keys, "gs_access_key_id"), value_of(keys, "gs_secret_access_key"), "",
                             "[Credentials] of the boto file", kUnsigned);
    }
    return settings;
}

S3Settings find_gcs_settings() {
    return find_gcs_settings(process_variable);
}

}  // namespace stoker
