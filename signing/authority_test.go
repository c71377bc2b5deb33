package signing_test

import (
	"bytes"
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/asn1"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"testing"
	"time"

	"github.com/digitorus/timestamp"
	"github.com/opencontainers/go-digest"
	cosignbundle "github.com/sigstore/cosign/v2/pkg/cosign/bundle"
	protobundle "github.com/sigstore/protobuf-specs/gen/pb-go/bundle/v1"
	protocommon "github.com/sigstore/protobuf-specs/gen/pb-go/common/v1"
	protodsse "github.com/sigstore/protobuf-specs/gen/pb-go/dsse"
	protorekor "github.com/sigstore/protobuf-specs/gen/pb-go/rekor/v1"
	"github.com/sigstore/sigstore-go/pkg/root"
	"github.com/sigstore/sigstore-go/pkg/testing/ca"
	"github.com/sigstore/sigstore-go/pkg/tlog"
	"github.com/sigstore/sigstore-go/pkg/verify"
	"github.com/sigstore/sigstore/pkg/cryptoutils"
	"github.com/sigstore/sigstore/pkg/signature"
	"github.com/sigstore/sigstore/pkg/signature/dsse"
	"google.golang.org/protobuf/encoding/protojson"

	"waybill/signing"
)

// An authority issues certificates and timestamps at the time of its making.
type authority struct {
	cert, stampRoot, stampCert *x509.Certificate
	key, stampKey              *ecdsa.PrivateKey
}

func newAuthority(t *testing.T) *authority {
	t.Helper()
	a := &authority{}
	var err error
	if a.cert, a.key, err = ca.GenerateRootCa(); err != nil {
		t.Fatal(err)
	}
	stampRoot, stampRootKey, err := ca.GenerateRootCa()
	if err != nil {
		t.Fatal(err)
	}
	a.stampRoot, a.stampKey = stampRoot, newECDSA(t)
	a.stampCert, err = ca.GenerateTSALeafCert(time.Now().Add(-5*time.Minute), a.stampKey, stampRoot, stampRootKey)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

func newECDSA(t *testing.T) *ecdsa.PrivateKey {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

// trustedRoot is the authority as a trusted_root.json, with no log.
func (a *authority) trustedRoot(t *testing.T) []byte {
	t.Helper()
	start, end := a.cert.NotBefore, a.cert.NotAfter
	return trustedRoot(t,
		[]root.CertificateAuthority{&root.FulcioCertificateAuthority{Root: a.cert, ValidityPeriodStart: start, ValidityPeriodEnd: end, URI: "https://fulcio.example"}},
		[]root.TimestampingAuthority{&root.SigstoreTimestampingAuthority{Root: a.stampRoot, Leaf: a.stampCert, ValidityPeriodStart: start, ValidityPeriodEnd: end, URI: "https://tsa.example"}},
		nil, nil)
}

func trustedRoot(t *testing.T, authorities []root.CertificateAuthority, stamps []root.TimestampingAuthority, logs, certificateLogs map[string]*root.TransparencyLog) []byte {
	t.Helper()
	material, err := root.NewTrustedRoot(root.TrustedRootMediaType01, authorities, certificateLogs, stamps, logs)
	if err != nil {
		t.Fatal(err)
	}
	data, err := material.MarshalJSON()
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// leaf issues a certificate of ten minutes.
func (a *authority) leaf(t *testing.T, subject, issuer string, notBefore time.Time) (certPEM []byte, key *ecdsa.PrivateKey) {
	t.Helper()
	key = newECDSA(t)
	cert, err := ca.GenerateLeafCert(subject, issuer, notBefore, key, a.cert, a.key)
	if err != nil {
		t.Fatal(err)
	}
	certPEM, err = cryptoutils.MarshalCertificateToPEM(cert)
	if err != nil {
		t.Fatal(err)
	}
	return certPEM, key
}

// stamp vouches that sig exists now.
func (a *authority) stamp(t *testing.T, sig []byte) []byte {
	t.Helper()
	query, err := timestamp.CreateRequest(bytes.NewReader(sig), &timestamp.RequestOptions{Hash: crypto.SHA256})
	if err != nil {
		t.Fatal(err)
	}
	request, err := timestamp.ParseRequest(query)
	if err != nil {
		t.Fatal(err)
	}
	response := timestamp.Timestamp{
		HashAlgorithm: request.HashAlgorithm, HashedMessage: request.HashedMessage, Time: time.Now(),
		Policy: asn1.ObjectIdentifier{1, 3, 6, 1, 4, 1, 57264, 2},
	}
	data, err := response.CreateResponseWithOpts(a.stampCert, a.stampKey, crypto.SHA256)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// A keyless is a signature of one digest by a certificate, in both forms.
type keyless struct {
	tag   tagLayer
	proof []byte
}

// sign signs d with a certificate that begins at notBefore, stamped now or not.
func (a *authority) sign(t *testing.T, d digest.Digest, subject, issuer string, notBefore time.Time, stamped bool) keyless {
	t.Helper()
	certPEM, key := a.leaf(t, subject, issuer, notBefore)
	message := newPayload(t, d)
	sig := signBytes(t, key, message)
	annotations := map[string]string{
		"dev.cosignproject.cosign/signature": b64(sig), "dev.sigstore.cosign/certificate": string(certPEM),
	}
	sv, err := signature.LoadECDSASignerVerifier(key, crypto.SHA256)
	if err != nil {
		t.Fatal(err)
	}
	words := []byte(`{"_type":"https://in-toto.io/Statement/v1","subject":[{"digest":{"sha256":"` + d.Encoded() + `"}}],"predicateType":"` + signing.PredicateTypeSignature + `"}`)
	envelope, err := dsse.WrapSigner(sv, "application/vnd.in-toto+json").SignMessage(bytes.NewReader(words))
	if err != nil {
		t.Fatal(err)
	}
	var stamp []byte
	if stamped {
		annotations["dev.sigstore.cosign/rfc3161timestamp"] = string(mustJSON(t, cosignbundle.RFC3161Timestamp{SignedRFC3161Timestamp: a.stamp(t, sig)}))
		var parsed struct{ Signatures []struct{ Sig []byte } }
		if err := json.Unmarshal(envelope, &parsed); err != nil {
			t.Fatal(err)
		}
		stamp = a.stamp(t, parsed.Signatures[0].Sig)
	}
	proof, err := cosignbundle.MakeNewBundle(key.Public(), nil, words, envelope, certPEM, stamp)
	if err != nil {
		t.Fatal(err)
	}
	return keyless{tag: tagLayer{message, annotations}, proof: proof}
}

// signLogged signs d with sigstore-go's own test authority, whose signatures
// have a log entry and a timestamp; without tells what to leave out.
func signLogged(t *testing.T, vs *ca.VirtualSigstore, d digest.Digest, subject, issuer string, withLog, withStamp bool) keyless {
	t.Helper()
	message := newPayload(t, d)
	entity, err := vs.Sign(subject, issuer, message)
	if err != nil {
		t.Fatal(err)
	}
	k := keyless{tag: tagLayer{message, logAnnotations(t, vs, entity, withLog, withStamp)}}
	words := []byte(`{"_type":"https://in-toto.io/Statement/v1","subject":[{"digest":{"sha256":"` + d.Encoded() + `"}}],"predicateType":"` + signing.PredicateTypeSignature + `"}`)
	if entity, err = vs.AttestAtTime(subject, issuer, words, time.Now().Add(5*time.Minute), true); err != nil {
		t.Fatal(err)
	}
	k.proof = logProof(t, vs, entity, words, withLog, withStamp)
	return k
}

type partsOf struct {
	cert   *x509.Certificate
	sig    []byte
	entry  *protorekor.TransparencyLogEntry
	stamps [][]byte
}

func parts(t *testing.T, entity verify.SignedEntity) (p partsOf) {
	t.Helper()
	content, err := entity.VerificationContent()
	if err != nil {
		t.Fatal(err)
	}
	sig, err := entity.SignatureContent()
	if err != nil {
		t.Fatal(err)
	}
	entries, err := entity.TlogEntries()
	if err != nil {
		t.Fatal(err)
	}
	if p.stamps, err = entity.Timestamps(); err != nil {
		t.Fatal(err)
	}
	p.cert, p.sig, p.entry = content.Certificate(), sig.Signature(), entries[0].TransparencyLogEntry()
	return p
}

// promise makes the log's signature over an entry, which the test authority
// keeps to itself.
func promise(t *testing.T, vs *ca.VirtualSigstore, entry *protorekor.TransparencyLogEntry) (tlog.RekorPayload, []byte) {
	t.Helper()
	words := tlog.RekorPayload{
		Body: base64.StdEncoding.EncodeToString(entry.GetCanonicalizedBody()), IntegratedTime: entry.GetIntegratedTime(),
		LogIndex: entry.GetLogIndex(), LogID: hex.EncodeToString(entry.GetLogId().GetKeyId()),
	}
	signed, err := vs.RekorSignPayload(words)
	if err != nil {
		t.Fatal(err)
	}
	return words, signed
}

func logAnnotations(t *testing.T, vs *ca.VirtualSigstore, entity verify.SignedEntity, withLog, withStamp bool) map[string]string {
	t.Helper()
	p := parts(t, entity)
	certPEM, err := cryptoutils.MarshalCertificateToPEM(p.cert)
	if err != nil {
		t.Fatal(err)
	}
	annotations := map[string]string{"dev.cosignproject.cosign/signature": b64(p.sig), "dev.sigstore.cosign/certificate": string(certPEM)}
	if withStamp {
		annotations["dev.sigstore.cosign/rfc3161timestamp"] = string(mustJSON(t, cosignbundle.RFC3161Timestamp{SignedRFC3161Timestamp: p.stamps[0]}))
	}
	if withLog {
		words, signed := promise(t, vs, p.entry)
		annotations["dev.sigstore.cosign/bundle"] = string(mustJSON(t, cosignbundle.RekorBundle{
			SignedEntryTimestamp: signed, Payload: cosignbundle.RekorPayload(words),
		}))
	}
	return annotations
}

func logProof(t *testing.T, vs *ca.VirtualSigstore, entity verify.SignedEntity, words []byte, withLog, withStamp bool) []byte {
	t.Helper()
	p := parts(t, entity)
	material := &protobundle.VerificationMaterial{Content: &protobundle.VerificationMaterial_Certificate{Certificate: &protocommon.X509Certificate{RawBytes: p.cert.Raw}}}
	if withLog {
		_, signed := promise(t, vs, p.entry)
		p.entry.InclusionPromise = &protorekor.InclusionPromise{SignedEntryTimestamp: signed}
		p.entry.KindVersion = &protorekor.KindVersion{Kind: "intoto", Version: "0.0.2"}
		material.TlogEntries = []*protorekor.TransparencyLogEntry{p.entry}
	}
	if withStamp {
		material.TimestampVerificationData = &protobundle.TimestampVerificationData{Rfc3161Timestamps: []*protocommon.RFC3161SignedTimestamp{{SignedTimestamp: p.stamps[0]}}}
	}
	data, err := protojson.Marshal(&protobundle.Bundle{
		MediaType: signing.MediaTypeSigstoreBundle, VerificationMaterial: material,
		Content: &protobundle.Bundle_DsseEnvelope{DsseEnvelope: &protodsse.Envelope{
			Payload: words, PayloadType: "application/vnd.in-toto+json", Signatures: []*protodsse.Signature{{Sig: p.sig}},
		}},
	})
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// logs are the transparency logs of vs as a trusted root has them: by the
// identifier's bytes, where the library has its hexadecimal text.
func logs(t *testing.T, vs *ca.VirtualSigstore) map[string]*root.TransparencyLog {
	t.Helper()
	out := vs.RekorLogs()
	for id, log := range out {
		raw, err := hex.DecodeString(id)
		if err != nil {
			t.Fatal(err)
		}
		log.ID = raw
	}
	return out
}
