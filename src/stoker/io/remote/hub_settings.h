// Endpoint and token of the Hugging Face hub: from the environment variables that huggingface_hub reads, and from the
// file in which `hf auth login` keeps the token.
#pragma once

#include <string>

#include "stoker/io/remote/setting_sources.h"

namespace stoker {

struct HubSettings {
    std::string endpoint;  // without '/' at its end
    std::string token;     // empty: none
};

// HF_ENDPOINT; HF_TOKEN, HUGGING_FACE_HUB_TOKEN, else the file HF_TOKEN_PATH, else "token" in HF_HOME, else in
// huggingface/ of XDG_CACHE_HOME or ~/.cache; HF_HUB_DISABLE_IMPLICIT_TOKEN=1 leaves the token out. Throws
// InvalidArgument for values that are not valid, Unsupported with HF_HUB_OFFLINE=1.
HubSettings find_hub_settings(const Variables& variables, const std::string& name);
HubSettings find_hub_settings(const std::string& name);  // of this process; `name` is the data, for messages

}  // namespace stoker
