// The wheel has Gloo's code and none of its headers, which <torch/csrc/distributed/c10d/ProcessGroupGloo.hpp> includes.
// These folders declare what that header names, and no more: objects of these types are made inside LibTorch alone.
#pragma once
