// Makes what sigstore's services make, by the project's own mocks of them: bundles in
// version 0.3, and the annotations of cosign, with certificates of Fulcio and entries of
// Rekor. sigstore's verifier judges each bundle first.
//
//     node tests/sigstore/mock.cjs DIGEST NAME > material.json
//
// DIGEST is that of an image, in hexadecimal digits, and NAME its name with a tag.
"use strict";

const crypto = require("node:crypto");
const http = require("node:http");
const { bundleFromJSON, bundleToJSON } = require("@sigstore/bundle");
const { fulcioHandler, initializeCA, initializeCTLog, initializeTLog, rekorHandler } = require("@sigstore/mock");
// After the mock, which loads a polyfill that this needs.
const x509 = require("@peculiar/x509");
const { DSSEBundleBuilder, FulcioSigner, MessageSignatureBundleBuilder, RekorWitness } = require("@sigstore/sign");
const { toSignedEntity, toTrustMaterial, Verifier } = require("@sigstore/verify");

const ISSUER = "https://accounts.example.com";
const EMAIL = "builder@example.com";
const STATEMENT = "application/vnd.in-toto+json";

const [digest, name] = process.argv.slice(2);
if (!name) throw new Error("name the digest and the name of an image");

const keyPair = () => crypto.generateKeyPairSync("ec", { namedCurve: "P-256" });
const pem = (label, der) => `-----BEGIN ${label}-----\n${der.toString("base64").match(/.{1,64}/g).join("\n")}\n-----END ${label}-----\n`;
const publicPem = (key) => key.export({ type: "spki", format: "pem" });

// The mock writes every subject as a URI, and policies name email addresses.
const Names = x509.SubjectAlternativeNameExtension;
let subjects = "url";
const x509Default = x509.default ?? x509;
class Subjects extends Names {
  constructor(names, critical) {
    super(Array.isArray(names) ? names.map((it) => ({ ...it, type: subjects })) : names, critical);
  }
}

// One server for both services.
const serve = (handlers) =>
  new Promise((resolve) => {
    const server = http.createServer((request, response) => {
      const parts = [];
      request.on("data", (part) => parts.push(part));
      request.on("end", async () => {
        const handler = handlers().find((it) => it.path === request.url);
        const answer = handler ? await handler.fn(Buffer.concat(parts).toString()) : { statusCode: 404, response: "" };
        response.writeHead(answer.statusCode, { "content-type": answer.contentType ?? "text/plain" });
        response.end(answer.response);
      });
    });
    server.listen(0, "127.0.0.1", () => resolve(server));
  });

const main = async () => {
  const [ca, ctlog, rekor, key] = [keyPair(), keyPair(), keyPair(), keyPair()];
  let handlers = [];
  const server = await serve(() => handlers);
  const url = `http://127.0.0.1:${server.address().port}`;
  const certificates = await initializeCTLog(ctlog);
  const authority = await initializeCA(ca, certificates);
  // Within the ten minutes of a certificate, and never its first second.
  const log = await initializeTLog(url, rekor, new Date(Date.now() + 60_000));
  handlers = [fulcioHandler(authority, { subjectClaim: "email" }), rekorHandler(log)];

  const part = (value) => Buffer.from(JSON.stringify(value)).toString("base64url");
  const token = `${part({ alg: "none" })}.${part({ iss: ISSUER, sub: EMAIL, email: EMAIL, email_verified: true })}.`;
  const options = { retry: 0, timeout: 30_000 };
  // Each has a key of its own.
  const holder = () => new FulcioSigner({ fulcioBaseURL: url, identityProvider: { getToken: async () => token }, ...options });
  const identity = holder();
  const keyed = {
    sign: async (data) => ({
      signature: crypto.sign("sha256", data, key.privateKey),
      key: { $case: "publicKey", publicKey: publicPem(key.publicKey), hint: "key" },
    }),
  };
  const witness = (entryType) => new RekorWitness({ rekorBaseURL: url, entryType, ...options });

  const statement = (change) => {
    const content = {
      _type: "https://in-toto.io/Statement/v1",
      subject: [{ digest: { sha256: digest } }],
      predicateType: "https://sigstore.dev/cosign/sign/v1",
      predicate: {},
    };
    change?.(content);
    return { data: Buffer.from(JSON.stringify(content)), type: STATEMENT };
  };
  const signed = (signer, witnesses, artifact) => new DSSEBundleBuilder({ signer, witnesses }).create(artifact);

  const trusted = toTrustMaterial(
    {
      mediaType: "application/vnd.dev.sigstore.trustedroot+json;version=0.1",
      certificateAuthorities: [{ certChain: { certificates: [{ rawBytes: authority.rootCertificate }] }, validFor: { start: new Date(0) } }],
      ctlogs: [{ baseUrl: url, logId: { keyId: Buffer.from(certificates.logID) }, publicKey: { rawBytes: certificates.publicKey, keyDetails: 5, validFor: { start: new Date(0) } } }],
      tlogs: [{ baseUrl: url, logId: { keyId: crypto.createHash("sha256").update(log.publicKey).digest() }, publicKey: { rawBytes: log.publicKey, keyDetails: 5, validFor: { start: new Date(0) } } }],
      timestampAuthorities: [],
    },
    () => ({ publicKey: key.publicKey, validFor: () => true }),
  );
  const judged = (bundle, logs) => {
    const verifier = new Verifier(trusted, { tlogThreshold: logs, timestampThreshold: logs, ctlogThreshold: 1 });
    try {
      verifier.verify(toSignedEntity(bundleFromJSON(bundle)));
      return null;
    } catch (error) {
      return error.message;
    }
  };

  const bundles = {};
  const add = (fact, logs, bundle) => {
    bundles[fact] = { bundle, refusal: judged(bundle, logs) };
  };
  const by = async (signer, witnesses, artifact) => bundleToJSON(await signed(signer, witnesses, artifact));
  add("key", 0, await by(keyed, [], statement()));
  add("logged key", 1, await by(keyed, [witness("intoto")], statement()));
  add("identity as URI", 1, await by(identity, [witness("intoto")], statement()));

  subjects = "email";
  const original = x509Default.SubjectAlternativeNameExtension;
  x509Default.SubjectAlternativeNameExtension = Subjects;
  const good = await by(identity, [witness("intoto")], statement());
  add("identity", 1, good);
  add("list of packages", 1, await by(identity, [witness("intoto")], statement((it) => (it.predicateType = "https://spdx.dev/Document"))));
  add("other image", 1, await by(identity, [witness("intoto")], statement((it) => (it.subject[0].digest.sha256 = "0".repeat(64)))));
  add("named image", 1, await by(identity, [witness("intoto")], statement((it) => (it.subject[0].name = name))));
  const changed = (fact, change) => {
    const copy = structuredClone(good);
    change(copy);
    add(fact, 1, copy);
  };
  changed("other payload", (it) => (it.dsseEnvelope.payload = statement((content) => (content.predicate = { a: 1 })).data.toString("base64")));
  changed("other time", (it) => {
    const entry = it.verificationMaterial.tlogEntries[0];
    entry.integratedTime = `${Number(entry.integratedTime) + 1}`;
  });
  changed("other index", (it) => (it.verificationMaterial.tlogEntries[0].logIndex = "1"));
  changed("other signature", (it) => (it.dsseEnvelope.signatures[0].sig = crypto.sign("sha256", Buffer.from("a"), key.privateKey).toString("base64")));
  const other = await by(holder(), [witness("intoto")], statement());
  changed("other certificate", (it) => (it.verificationMaterial.certificate = other.verificationMaterial.certificate));
  changed("other entry", (it) => (it.verificationMaterial.tlogEntries = other.verificationMaterial.tlogEntries));
  changed("no entry", (it) => (it.verificationMaterial.tlogEntries = []));

  // The attachment of cosign for the same image: a signature of its payload.
  const payload = Buffer.from(
    `{"critical":{"identity":{"docker-reference":${JSON.stringify(name)}},"image":{"docker-manifest-digest":"sha256:${digest}"},"type":"cosign container image signature"},"optional":null}`,
  );
  const message = bundleToJSON(await new MessageSignatureBundleBuilder({ signer: identity, witnesses: [witness()] }).create({ data: payload }));
  const entry = message.verificationMaterial.tlogEntries[0];
  const certificate = message.verificationMaterial.certificate ?? message.verificationMaterial.x509CertificateChain.certificates[0];
  const attachment = {
    payload: payload.toString(),
    signature: message.messageSignature.signature,
    certificate: pem("CERTIFICATE", Buffer.from(certificate.rawBytes, "base64")),
    entry: {
      SignedEntryTimestamp: entry.inclusionPromise.signedEntryTimestamp,
      Payload: {
        body: entry.canonicalizedBody,
        integratedTime: Number(entry.integratedTime),
        logIndex: Number(entry.logIndex),
        logID: Buffer.from(entry.logId.keyId, "base64").toString("hex"),
      },
    },
  };
  x509Default.SubjectAlternativeNameExtension = original;
  server.close();
  server.closeAllConnections();

  process.stdout.write(
    JSON.stringify({
      issuer: ISSUER,
      email: EMAIL,
      root: pem("CERTIFICATE", authority.rootCertificate),
      log: pem("PUBLIC KEY", Buffer.from(log.publicKey)),
      key: publicPem(key.publicKey),
      bundles,
      attachment,
    }),
  );
};

main().catch((error) => {
  console.error(error);
  process.exitCode = 1;
});
