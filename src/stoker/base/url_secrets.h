// Names of data that are URLs, and their forms without secrets. The user name, the password and the whole query are
// treated as secrets: a query may hold a token or the signature of a presigned URL. Names of objects (s3://, gs://,
// hf://) never have a query: '?' and '#' are characters of a key.
#pragma once

#include <string>
#include <string_view>

namespace stoker {

// True for a name with a scheme, such as http://, https:// or s3://.
bool is_url(std::string_view name);

// True for s3://, gs:// and hf://.
bool names_object(std::string_view name);

// For messages: without user, password and fragment; a query is shown as "?...". Other names are unchanged.
std::string shown_url(std::string_view url);

// For files such as a run's recipe.toml: as shown_url, with "...@" in place of user and password.
std::string stored_url(std::string_view url);

// True for a URL that stored_url shortened: nothing can be opened by it.
bool lacks_secrets(std::string_view url);

// For keys of caches, never for messages: without user, password and the query parameters that hold a token, a
// signature or its time. A URL that was signed again is the same object; other parameters may name another one.
std::string unsigned_url(std::string_view url);

}  // namespace stoker
