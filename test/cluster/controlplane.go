package cluster

import (
	"cmp"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
)

// files are the paths in a cluster's state folder that the programs are told, and the two addresses.
type files struct {
	etcdData, policy                string
	ca, cert, key, accounts         string
	controllers                     string
	etcdURL, serverHost, serverPort string
}

// prepare writes everything the programs read, for addresses that are free now.
func (c *Cluster) prepare(state string) (files, error) {
	f := files{
		etcdData:    filepath.Join(state, "etcd"),
		policy:      filepath.Join(state, "audit-policy.yaml"),
		ca:          filepath.Join(state, "ca.crt"),
		cert:        filepath.Join(state, "server.crt"),
		key:         filepath.Join(state, "server.key"),
		accounts:    filepath.Join(state, "service-accounts.key"),
		controllers: filepath.Join(state, "kube-controller-manager.kubeconfig"),
	}
	addresses, err := freeAddresses(2)
	if err != nil {
		return files{}, fmt.Errorf("choosing free ports: %w", err)
	}
	f.etcdURL = "http://" + addresses[0]
	serve := cmp.Or(c.listen, addresses[1])
	if f.serverHost, f.serverPort, err = net.SplitHostPort(serve); err != nil {
		return files{}, err
	}
	c.server = "https://" + serve
	if c.authority, err = newAuthority(); err != nil {
		return files{}, fmt.Errorf("making a certificate authority: %w", err)
	}
	if err := c.writeSecrets(f); err != nil {
		return files{}, err
	}
	c.admin, err = c.ConfigFor(Admin)
	return f, err
}

// freeAddresses finds loopback addresses nobody listens on. They are held at the same time so that they differ.
func freeAddresses(n int) ([]string, error) {
	var addresses []string
	for range n {
		listener, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return nil, err
		}
		defer listener.Close()
		addresses = append(addresses, listener.Addr().String())
	}
	return addresses, nil
}

// writeSecrets writes keys, certificates, kubeconfigs and the audit policy.
func (c *Cluster) writeSecrets(f files) error {
	cert, key, err := c.authority.server(net.ParseIP(f.serverHost))
	if err != nil {
		return err
	}
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return err
	}
	accounts, err := keyPEM(private)
	if err != nil {
		return err
	}
	return errors.Join(
		os.WriteFile(f.ca, c.authority.pem(), 0o600),
		os.WriteFile(f.cert, cert, 0o600),
		os.WriteFile(f.key, key, 0o600),
		os.WriteFile(f.accounts, accounts, 0o600),
		os.WriteFile(f.policy, []byte(auditPolicy), 0o600),
		c.writeKubeconfig(c.Kubeconfig(), Admin),
		c.writeKubeconfig(f.controllers, User{Name: "system:kube-controller-manager"}),
	)
}

func (c *Cluster) startEtcd(ctx context.Context, programs Programs, f files) error {
	etcd, err := c.programs.start(programs["etcd"], c.dir,
		"--data-dir="+f.etcdData,
		"--unsafe-no-fsync", // nobody misses the data after a crash
		"--listen-client-urls="+f.etcdURL,
		"--advertise-client-urls="+f.etcdURL,
		"--listen-peer-urls=http://127.0.0.1:0", // there are no peers
	)
	if err != nil {
		return err
	}
	return etcd.waitUntil(ctx, func(ctx context.Context) error { return healthy(ctx, f.etcdURL+"/health") })
}

// healthy reports whether an address answers a plain GET with 200.
func healthy(ctx context.Context, url string) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	if _, err := io.Copy(io.Discard, io.LimitReader(response.Body, 1<<16)); err != nil {
		return err
	}
	if response.StatusCode != http.StatusOK {
		return errors.New(response.Status)
	}
	return nil
}

func (c *Cluster) startServer(ctx context.Context, programs Programs, f files) error {
	server, err := c.programs.start(programs["kube-apiserver"], c.dir,
		"--etcd-servers="+f.etcdURL,
		"--bind-address="+f.serverHost,
		"--secure-port="+f.serverPort,
		// A machine without a default route has no other address, and no pod looks for the service "kubernetes".
		"--advertise-address="+f.serverHost,
		"--endpoint-reconciler-type=none",
		"--tls-cert-file="+f.cert,
		"--tls-private-key-file="+f.key,
		"--client-ca-file="+f.ca,
		"--service-account-key-file="+f.accounts,
		"--service-account-signing-key-file="+f.accounts,
		"--service-account-issuer=https://kubernetes.default.svc",
		"--authorization-mode=RBAC",
		"--service-cluster-ip-range=10.77.0.0/16",
		"--allow-privileged",
		"--audit-policy-file="+f.policy,
		"--audit-log-path="+c.AuditLog(),
	)
	if err != nil {
		return err
	}
	client, err := kubernetes.NewForConfig(c.admin)
	if err != nil {
		return err
	}
	return server.waitUntil(ctx, func(ctx context.Context) error {
		return client.Discovery().RESTClient().Get().AbsPath("/readyz").Do(ctx).Error()
	})
}

func (c *Cluster) startControllers(programs Programs, f files) (*program, error) {
	args := []string{
		"--kubeconfig=" + f.controllers,
		"--secure-port=0",
		"--leader-elect=false",
		"--use-service-account-credentials",
		"--service-account-private-key-file=" + f.accounts,
		"--root-ca-file=" + f.ca,
		"--kube-api-qps=200",
		"--kube-api-burst=400",
	}
	if !c.noNode {
		// The node is a part of the process that started all this: it is there as long as the cluster, no heartbeat needed.
		args = append(args, "--node-monitor-grace-period=8760h")
	}
	return c.programs.start(programs["kube-controller-manager"], c.dir, args...)
}

// hasAccount reports whether the default service account exists, without which no pod can be created.
func hasAccount(ctx context.Context, client kubernetes.Interface) error {
	_, err := client.CoreV1().ServiceAccounts(metav1.NamespaceDefault).Get(ctx, "default", metav1.GetOptions{})
	return err
}

// usable reports whether pods can be created and will run: the default service account exists and the node is Ready.
func usable(ctx context.Context, client kubernetes.Interface) error {
	if err := hasAccount(ctx, client); err != nil {
		return err
	}
	node, err := client.CoreV1().Nodes().Get(ctx, NodeName, metav1.GetOptions{})
	if err != nil {
		return err
	}
	for _, condition := range node.Status.Conditions {
		if condition.Type == corev1.NodeReady && condition.Status == corev1.ConditionTrue {
			return nil
		}
	}
	return fmt.Errorf("node %s is not ready", NodeName)
}
