//! Calls over gRPC, as a client of the Operator Registry API makes them, and
//! such as none makes.

use std::net::SocketAddr;
use std::time::Duration;

use bytes::{Buf, BufMut as _, Bytes};
use prost::Message;
use tonic::client::Grpc;
use tonic::codec::{Codec, DecodeBuf, Decoder, EncodeBuf, Encoder};
use tonic::transport::{Channel, Endpoint};
use tonic::{Request, Status, Streaming};

/// How long a call may take.
const PATIENCE: Duration = Duration::from_secs(20);

/// The largest answer that is taken, in bytes.
const LIMIT: usize = 64 << 20;

/// A client with a connection, which it renews as it has to.
#[derive(Clone, Debug)]
pub(crate) struct Client {
    channel: Channel,
    headers: Vec<(&'static str, &'static str)>,
    limit: usize,
}

impl Client {
    /// A client that calls the server by its address.
    pub(crate) fn new(server: SocketAddr) -> Self {
        Self::called(server, &server.to_string())
    }

    /// A client that calls the server by this authority (`HOST[:PORT]`).
    pub(crate) fn called(server: SocketAddr, authority: &str) -> Self {
        Self::with_window(server, authority, None)
    }

    /// A client that takes so many bytes of a stream before it reads on.
    pub(crate) fn with_window(server: SocketAddr, authority: &str, window: Option<u32>) -> Self {
        let channel = Endpoint::from_shared(format!("http://{server}"))
            .unwrap()
            .origin(format!("http://{authority}").parse().unwrap())
            .timeout(PATIENCE)
            .initial_stream_window_size(window)
            .connect_lazy();
        Self::over(channel)
    }

    /// A client over a connection that a test has made.
    pub(crate) fn over(channel: Channel) -> Self {
        Self {
            channel,
            headers: Vec::new(),
            limit: LIMIT,
        }
    }

    /// Takes no larger answers than this many bytes.
    pub(crate) fn taking(self, limit: usize) -> Self {
        Self { limit, ..self }
    }

    /// Sends this header with each call.
    pub(crate) fn header(mut self, name: &'static str, value: &'static str) -> Self {
        self.headers.push((name, value));
        self
    }

    /// A call with one answer.
    pub(crate) async fn unary<Req, Resp>(&self, path: &str, request: Req) -> Result<Resp, Status>
    where
        Req: Message + 'static,
        Resp: Message + Default + 'static,
    {
        let codec = tonic_prost::ProstCodec::<Req, Resp>::default();
        let mut grpc = self.ready().await?;
        let answer = grpc.unary(self.request(request), parse(path), codec).await;
        Ok(answer?.into_inner())
    }

    /// A call with a stream of answers, read to its end.
    pub(crate) async fn stream<Req, Resp>(
        &self,
        path: &str,
        request: Req,
    ) -> Result<Vec<Resp>, Status>
    where
        Req: Message + 'static,
        Resp: Message + Default + 'static,
    {
        let mut stream = self.open(path, request).await?;
        rest(&mut stream).await
    }

    /// A call with a stream of answers, begun.
    pub(crate) async fn open<Req, Resp>(
        &self,
        path: &str,
        request: Req,
    ) -> Result<Streaming<Resp>, Status>
    where
        Req: Message + 'static,
        Resp: Message + Default + 'static,
    {
        let codec = tonic_prost::ProstCodec::<Req, Resp>::default();
        let mut grpc = self.ready().await?;
        let answer = grpc.server_streaming(self.request(request), parse(path), codec);
        Ok(answer.await?.into_inner())
    }

    /// A call with any bytes as its message.
    pub(crate) async fn raw(&self, path: &str, message: &[u8]) -> Result<Bytes, Status> {
        let message = Bytes::copy_from_slice(message);
        let mut grpc = self.ready().await?;
        let answer = grpc.unary(self.request(message), parse(path), Raw).await;
        Ok(answer?.into_inner())
    }

    /// The same, with every message of the answer.
    pub(crate) async fn raw_stream(
        &self,
        path: &str,
        message: &[u8],
    ) -> Result<Vec<Bytes>, Status> {
        let message = Bytes::copy_from_slice(message);
        let mut grpc = self.ready().await?;
        let answer = grpc.server_streaming(self.request(message), parse(path), Raw);
        rest(&mut answer.await?.into_inner()).await
    }

    /// The connection, for clients of other services.
    pub(crate) fn channel(&self) -> Channel {
        self.channel.clone()
    }

    async fn ready(&self) -> Result<Grpc<Channel>, Status> {
        let mut grpc = Grpc::new(self.channel.clone()).max_decoding_message_size(self.limit);
        grpc.ready()
            .await
            .map_err(|error| Status::unavailable(error.to_string()))?;
        Ok(grpc)
    }

    fn request<T>(&self, message: T) -> Request<T> {
        let mut request = Request::new(message);
        for (name, value) in &self.headers {
            request.metadata_mut().insert(*name, value.parse().unwrap());
        }
        request
    }
}

/// The next message of a stream, which has to come in time.
pub(crate) async fn next<T>(stream: &mut Streaming<T>) -> Result<Option<T>, Status> {
    tokio::time::timeout(PATIENCE, stream.message())
        .await
        .unwrap_or_else(|_| Err(Status::deadline_exceeded("no message came in time")))
}

/// The rest of a stream.
pub(crate) async fn rest<T>(stream: &mut Streaming<T>) -> Result<Vec<T>, Status> {
    let mut messages = Vec::new();
    while let Some(message) = next(stream).await? {
        messages.push(message);
    }
    Ok(messages)
}

fn parse(path: &str) -> http::uri::PathAndQuery {
    path.parse().unwrap()
}

/// Messages as the bytes that they are.
#[derive(Clone, Copy, Debug)]
struct Raw;

impl Codec for Raw {
    type Encode = Bytes;
    type Decode = Bytes;
    type Encoder = Self;
    type Decoder = Self;

    fn encoder(&mut self) -> Self {
        Self
    }

    fn decoder(&mut self) -> Self {
        Self
    }
}

impl Encoder for Raw {
    type Item = Bytes;
    type Error = Status;

    fn encode(&mut self, message: Bytes, out: &mut EncodeBuf<'_>) -> Result<(), Status> {
        out.put(message);
        Ok(())
    }
}

impl Decoder for Raw {
    type Item = Bytes;
    type Error = Status;

    fn decode(&mut self, message: &mut DecodeBuf<'_>) -> Result<Option<Bytes>, Status> {
        Ok(Some(message.copy_to_bytes(message.remaining())))
    }
}
