//! Signing in: the browser asks for a token and sends it as a password from then on.

use axum::extract::Request;
use axum::response::{IntoResponse as _, Response};
use http::header::{LOCATION, WWW_AUTHENTICATE};
use http::{HeaderValue, StatusCode};

use crate::serve::fields;
use crate::serve::http::api::problem::Problem;
use crate::serve::http::catalogd::content::reader;
use crate::serve::http::options::PageOptions;
use crate::serve::net::listen::Peer;

/// Leads home once the client is known, and asks for a token before.
pub(crate) async fn show(request: Request) -> Response {
    if reader(&request).is_known() {
        let home = HeaderValue::from_static("/");
        return (StatusCode::SEE_OTHER, [(LOCATION, home)]).into_response();
    }
    let detail = if is_safe(&request) {
        "give the token of your catalogs as the password; any user name will do"
    } else {
        "almanac asks for a token over TLS or on the same machine only; open this page over https"
    };
    let problem = Problem::new(StatusCode::UNAUTHORIZED, "sign-in", detail);
    let mut response = problem.into_response();
    let challenge = HeaderValue::from_static("Bearer realm=\"almanac\"");
    response.headers_mut().insert(WWW_AUTHENTICATE, challenge);
    response
}

/// Whether a password may be asked for: the browser has TLS, to this server or to a proxy
/// before it, or is on the same machine. The address of the peer does not tell: it may be
/// a proxy's.
pub(super) fn is_safe(request: &Request) -> bool {
    let options = request.extensions().get::<PageOptions>();
    let url = options.and_then(|options| options.url.as_deref());
    let peer = request.extensions().get::<Peer>();
    let headers = request.headers();
    url.is_some_and(|url| url.starts_with("https://"))
        || peer.is_some_and(|peer| peer.secure)
        || fields::is_proxied_with_tls(headers)
        // Browsers send it over TLS and to their own machine only (Fetch Metadata,
        // section 3).
        || headers.contains_key("sec-fetch-mode")
}

/// Makes a browser ask for a password, where the response wants a token.
pub(super) fn ask(response: &mut Response) {
    let headers = response.headers_mut();
    if headers.contains_key(WWW_AUTHENTICATE) {
        let challenge = HeaderValue::from_static("Basic realm=\"almanac\", charset=\"UTF-8\"");
        headers.insert(WWW_AUTHENTICATE, challenge);
    }
}
