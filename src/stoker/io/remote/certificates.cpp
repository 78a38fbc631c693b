#include "stoker/io/remote/certificates.h"

#include <curl/curl.h>

#include <array>
#include <string_view>

#include "stoker/base/environment.h"
#include "stoker/base/file.h"

namespace stoker {
namespace {

constexpr std::array kPlaces = {
    "/etc/ssl/certs/ca-certificates.crt",                 // Debian, Ubuntu, Arch, Alpine
    "/etc/pki/tls/certs/ca-bundle.crt",                   // Fedora, RHEL
    "/etc/pki/ca-trust/extracted/pem/tls-ca-bundle.pem",  // newer ones of these
    "/etc/ssl/ca-bundle.pem",                             // openSUSE
    "/etc/ssl/cert.pem",                                  // Alpine without the package
};

}  // namespace

Certificates find_certificates() {
    for (const char* name : {"CURL_CA_BUNDLE", "SSL_CERT_FILE"}) {
        if (const std::string file = environment_variable(name); !file.empty()) {
            const bool alone = std::string_view(name) == "CURL_CA_BUNDLE";
            return {.file = file, .folder = alone ? "" : environment_variable("SSL_CERT_DIR"), .variable = name};
        }
    }
    const curl_version_info_data* curl = ::curl_version_info(CURLVERSION_NOW);
    return {.file = system_certificates(curl->cainfo, curl->capath, kPlaces),
            .folder = environment_variable("SSL_CERT_DIR")};
}

std::string system_certificates(const char* own_file, const char* own_folder, std::span<const char* const> places) {
    if (own_file != nullptr ? is_file(own_file) : own_folder != nullptr && is_folder(own_folder)) {
        return "";
    }
    for (const char* place : places) {
        if (is_file(place)) {
            return place;
        }
    }
    return "";
}

}  // namespace stoker
