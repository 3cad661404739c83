package lake

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"net/url"
	"strings"

	"github.com/minio/minio-go/v7"
	"github.com/minio/minio-go/v7/pkg/credentials"
)

// Default hosts of the services.
const (
	hostS3  = "s3.amazonaws.com"
	hostGCS = "storage.googleapis.com"
)

const listedMax = 1000

// bucket is a store in S3, or in Google Cloud Storage, whose XML API uses the same protocol.
type bucket struct {
	client *minio.Client
	name   string
	prefix string
	scheme string
}

// Open opens the lake at an address, which is a folder or one of:
//
//	s3://bucket/prefix?region=us-east-2&endpoint=https://host:port
//	gs://bucket/prefix
//
// Credentials are taken from the environment (AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY; for GCS,
// an HMAC key in the same variables), from ~/.aws/credentials, or from the machine's role. Without
// credentials, or with anonymous=true, the bucket is read anonymously.
func Open(address string) (Store, error) {
	scheme, _, remote := strings.Cut(address, "://")
	if !remote {
		return OpenFolder(address)
	}
	u, err := url.Parse(address)
	if err != nil || u.Host == "" || scheme != "s3" && scheme != "gs" {
		return nil, errors.New("lake: the address must be a folder, s3://bucket/prefix or " +
			"gs://bucket/prefix")
	}
	return openBucket(u)
}

func openBucket(u *url.URL) (Store, error) {
	q := u.Query()
	for name := range q {
		if name != "region" && name != "endpoint" && name != "anonymous" {
			return nil, fmt.Errorf("lake: unknown parameter %q in the address (known: region, endpoint, "+
				"anonymous)", name)
		}
	}
	host, secure := hostS3, true
	if u.Scheme == "gs" {
		host = hostGCS
	}
	if endpoint := q.Get("endpoint"); endpoint != "" {
		e, err := url.Parse(endpoint)
		if err != nil || e.Host == "" || e.Scheme != "http" && e.Scheme != "https" {
			return nil, errors.New("lake: endpoint must be like https://host:port")
		}
		host, secure = e.Host, e.Scheme == "https"
	}
	client, err := minio.New(host,
		&minio.Options{
			Creds:      credentialsFor(q.Get("anonymous") == "true"),
			Secure:     secure,
			Region:     q.Get("region"),
			MaxRetries: 3,
		})
	if err != nil {
		return nil, fmt.Errorf("lake: %w", err)
	}
	prefix := strings.Trim(u.Path, "/")
	if prefix != "" {
		prefix += "/"
	}
	return &bucket{client: client, name: u.Host, prefix: prefix, scheme: u.Scheme}, nil
}

func credentialsFor(anonymous bool) *credentials.Credentials {
	if anonymous {
		return credentials.NewStatic("", "", "", credentials.SignatureAnonymous)
	}
	return credentials.NewChainCredentials([]credentials.Provider{
		&credentials.EnvAWS{}, &credentials.FileAWSCredentials{},
		&credentials.IAM{Client: &http.Client{}},
	})
}

func (b *bucket) String() string { return b.scheme + "://" + b.name + "/" + b.prefix }

func (b *bucket) Get(ctx context.Context, key string, sizeBytesMax int64) ([]byte, error) {
	object, err := b.client.GetObject(ctx, b.name, b.prefix+key, minio.GetObjectOptions{})
	if err != nil {
		return nil, fmt.Errorf("fetching %s%s: %w", b, key, err)
	}
	defer object.Close()
	raw, err := readAll(object, sizeBytesMax)
	if minio.ToErrorResponse(err).Code == minio.NoSuchKey {
		return nil, fs.ErrNotExist
	}
	if err != nil {
		return nil, fmt.Errorf("fetching %s%s: %w", b, key, err)
	}
	return raw, nil
}

func (b *bucket) First(ctx context.Context, limit int) (keys []string, err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel() // stops the listing
	for object := range b.client.ListObjects(ctx, b.name,
		minio.ListObjectsOptions{Prefix: b.prefix, Recursive: true, MaxKeys: min(limit+1, listedMax)}) {
		if object.Err != nil {
			return nil, fmt.Errorf("listing %s: %w", b, object.Err)
		}
		key := strings.TrimPrefix(object.Key, b.prefix)
		if strings.HasPrefix(key, ".") {
			continue
		}
		if keys = append(keys, key); len(keys) >= limit {
			break
		}
	}
	return keys, nil
}
