// Credentials and endpoint of Google Cloud Storage, whose XML interface takes S3's requests. Nothing is requested over
// a network, so tokens of service accounts and of a cloud's metadata service are not obtained.
#pragma once

#include "stoker/io/remote/s3_settings.h"

namespace stoker {

// HMAC keys: GS_ACCESS_KEY_ID and GS_SECRET_ACCESS_KEY, the names that gsutil's library boto and GDAL read; else
// gs_access_key_id and gs_secret_access_key in [Credentials] of BOTO_CONFIG or ~/.boto, where `gsutil config -a` writes
// them. Between the two a token: GCS_OAUTH_TOKEN (htslib) or GOOGLE_OAUTH_ACCESS_TOKEN (Terraform), as
// `gcloud auth print-access-token` prints it; it is valid for an hour. With GS_NO_SIGN_REQUEST=1 all are left out.
// STORAGE_EMULATOR_HOST, a host with a port or a URL, is another endpoint, as in Google's libraries. Throws
// InvalidArgument if only one of two keys is set.
S3Settings find_gcs_settings(const Variables& variables);
S3Settings find_gcs_settings();  // of this process

}  // namespace stoker
