// An answer's status in words, for messages.
#pragma once

#include <string>

#include "stoker/io/remote/http_client.h"

namespace stoker {

// The service's word for an error: the <Code> of S3's XML, or the hub's X-Error-Code. Messages quote nothing else of an
// answer, which may repeat parts of signatures.
std::string error_code(const HttpAnswer& answer);

// "status 404 (NoSuchKey)".
std::string status_text(const HttpAnswer& answer);

}  // namespace stoker
