package cluster

import (
	"bufio"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"k8s.io/client-go/kubernetes"
)

// auditPolicy has every request of a test recorded, and of Kubernetes' own parts what they change.
const auditPolicy = `apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived, ResponseStarted]
rules:
- level: None
  users: ["system:apiserver", "system:kube-controller-manager", "system:node:node-1"]
  verbs: [get, list, watch]
- level: None
  userGroups: ["system:serviceaccounts:kube-system"]
  verbs: [get, list, watch]
- level: None
  nonResourceURLs: ["/readyz"]
- level: Metadata
`

// A Request is one entry of the audit log: what was asked of the API server, by whom, and how it was answered.
type Request struct {
	Time            time.Time // when it arrived
	User, UserAgent string
	Verb            string // as RBAC has it: get, list, watch, create, update, patch, delete, deletecollection
	URI             string
	Group, Resource string // empty for paths that are no resource
	Subresource     string
	Namespace, Name string
	Code            int // HTTP status of the answer
}

// Writes reports whether the request asks for something to be kept: dry runs and questions about rights do not, though
// they are sent with the same verbs. A write that was refused is one still; Code tells.
func (r Request) Writes() bool {
	if r.Resource == "" || slices.Contains([]string{"get", "list", "watch"}, r.Verb) {
		return false
	}
	if _, query, _ := strings.Cut(r.URI, "?"); strings.Contains(query, "dryRun=") {
		return false
	}
	return r.Group != "authorization.k8s.io" && r.Group != "authentication.k8s.io"
}

// AuditLog is the path of the API server's audit log: one JSON event a line, level Metadata.
func (c *Cluster) AuditLog() string { return filepath.Join(c.dir, "audit.log") }

// Requests are the requests that arrived since a time and were answered before this call, in the order of their
// answers: all of every user, except what Kubernetes' own parts read and watch.
func (c *Cluster) Requests(ctx context.Context, since time.Time) ([]Request, error) {
	if err := c.settleAudit(ctx); err != nil {
		return nil, fmt.Errorf("waiting for the audit log: %w", err)
	}
	events, err := readAudit(c.AuditLog())
	if err != nil {
		return nil, fmt.Errorf("reading the audit log: %w", err)
	}
	return slices.DeleteFunc(events, func(r Request) bool { return r.Time.Before(since) || r.User == auditUser }), nil
}

// Writes are those of [Cluster.Requests] that write ([Request.Writes]), controllers' and the node's included: look at
// User or UserAgent for whose they are.
func (c *Cluster) Writes(ctx context.Context, since time.Time) ([]Request, error) {
	requests, err := c.Requests(ctx, since)
	return slices.DeleteFunc(requests, func(r Request) bool { return !r.Writes() }), err
}

// auditUser sends the requests of settleAudit, which Requests leaves out.
const auditUser = "waybill:audit"

// settleAudit waits until a request sent now is in the log. An answer reaches the client a moment before its line
// reaches the file.
func (c *Cluster) settleAudit(ctx context.Context) error {
	config, err := c.ConfigFor(User{Name: auditUser, Groups: []string{"system:masters"}})
	if err != nil {
		return err
	}
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return err
	}
	mark := rand.Text()
	if err := client.Discovery().RESTClient().Get().AbsPath("/version").Param("mark", mark).Do(ctx).Error(); err != nil {
		return err
	}
	for {
		events, err := readAudit(c.AuditLog())
		if err != nil {
			return err
		}
		if slices.ContainsFunc(events, func(r Request) bool { return strings.HasSuffix(r.URI, mark) }) {
			return nil
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// event is what we read of an audit event: https://kubernetes.io/docs/reference/config-api/apiserver-audit.v1/
type event struct {
	Stage      string    `json:"stage"`
	Received   time.Time `json:"requestReceivedTimestamp"`
	RequestURI string    `json:"requestURI"`
	Verb       string    `json:"verb"`
	UserAgent  string    `json:"userAgent"`
	User       struct {
		Username string `json:"username"`
	} `json:"user"`
	Object struct {
		Resource    string `json:"resource"`
		Namespace   string `json:"namespace"`
		Name        string `json:"name"`
		APIGroup    string `json:"apiGroup"`
		Subresource string `json:"subresource"`
	} `json:"objectRef"`
	Response struct {
		Code int `json:"code"`
	} `json:"responseStatus"`
}

// readAudit reads all whole lines of an audit log.
func readAudit(path string) ([]Request, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	var requests []Request
	lines := bufio.NewReader(file)
	for {
		line, err := lines.ReadBytes('\n')
		if errors.Is(err, io.EOF) { // a line without its end is being written
			return requests, nil
		}
		if err != nil {
			return nil, err
		}
		var e event
		if err := json.Unmarshal(line, &e); err != nil {
			return nil, err
		}
		requests = append(requests, Request{
			Time: e.Received, User: e.User.Username, UserAgent: e.UserAgent, Verb: e.Verb, URI: e.RequestURI,
			Group: e.Object.APIGroup, Resource: e.Object.Resource, Subresource: e.Object.Subresource,
			Namespace: e.Object.Namespace, Name: e.Object.Name, Code: e.Response.Code,
		})
	}
}
