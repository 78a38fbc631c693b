// Checksums that servers send along with a body: Content-MD5, Content-Digest (RFC 9530), Digest (RFC 3230) and S3's
// x-amz-checksum-*.
#pragma once

#include <cstddef>
#include <map>
#include <span>
#include <string>

#include "stoker/io/remote/http_client.h"

namespace stoker {

// The checksums among an answer's headers, by header and algorithm ("digest sha-256"). Raw bytes; those of unknown
// algorithms, and composite ones of several parts, are left out.
std::map<std::string, std::string> body_checksums(const HttpAnswer& answer);

// Whether `name` by its definition covers the body and never the whole object.
bool covers_body(const std::string& name);

// Whether `pieces`, one after the other, have this checksum.
bool has_checksum(const std::string& name, const std::string& value,
                  std::span<const std::span<const std::byte>> pieces);

}  // namespace stoker
