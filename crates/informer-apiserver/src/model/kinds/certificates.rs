pub(crate) mod certificate_signing_request;
