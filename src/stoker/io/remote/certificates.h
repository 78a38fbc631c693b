// The certificates that https trusts, chosen as the program curl does: CURL_CA_BUNDLE, or else SSL_CERT_FILE and
// SSL_CERT_DIR, or else the system's, wherever its distribution keeps them.
#pragma once

#include <span>
#include <string>

namespace stoker {

struct Certificates {
    std::string file = {};      // PEM; empty: the one that libcurl was built with
    std::string folder = {};    // hashed, as OpenSSL's; empty: the one that libcurl was built with
    std::string variable = {};  // which variable names `file`; empty: none does
};

Certificates find_certificates();

// The certificates for a libcurl that was built on another distribution. Empty if its own file exists, or if it has a
// folder instead of a file; else the first of `places` that is a file. `own_file`, `own_folder`: may be null.
std::string system_certificates(const char* own_file, const char* own_folder, std::span<const char* const> places);

}  // namespace stoker
