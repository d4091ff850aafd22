// compare-and-write ADDRESS PORT NQN HOSTID NSID LBA COUNT: adds one to the number in a block of 4 KiB, COUNT times, each time by Compare and
// Write.  It connects as the host HOSTID.  Prints how often somebody else was faster.
//
// A program, because Linux sends no fused commands, not for programs either.  For cases/89-cluster-hosts.sh; `run` builds it, statically.
#include <arpa/inet.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum { BLOCK = 4096, SQE = 64, ICREQ = 0x00, ICRESP = 0x01, COMMAND = 0x04, RESPONSE = 0x05, DATA = 0x07 };
enum { FABRICS = 0x7f, CONNECT = 0x01, PROPERTY_SET = 0x00, PROPERTY_GET = 0x04, CC = 0x14, CSTS = 0x1c };
enum { WRITE = 0x01, READ = 0x02, COMPARE = 0x05, FIRST = 1, SECOND = 2, COMPARE_FAILURE = 0x285, MISSES_MAX = 1000000 };

struct answer { uint16_t id, status; uint64_t result; };
static unsigned char data_in[BLOCK];

static void die(const char *what) { fprintf(stderr, "compare-and-write: %s\n", what); exit(1); }
static void put(unsigned char *at, uint64_t value, int bytes) { for (int i = 0; i < bytes; i++) at[i] = value >> 8 * i; }
static uint64_t get(const unsigned char *at, int bytes) { uint64_t v = 0; while (bytes--) v = v << 8 | at[bytes]; return v; }

static void send_all(int s, const void *from, size_t bytes) {
	for (const char *at = from; bytes > 0;) {
		ssize_t n = send(s, at, bytes, MSG_NOSIGNAL);
		if (n <= 0) die("the connection is gone");
		at += n, bytes -= n;
	}
}
static void receive(int s, void *to, size_t bytes) {
	for (char *at = to; bytes > 0;) {
		ssize_t n = recv(s, at, bytes, 0);
		if (n <= 0) die("the connection is gone");
		at += n, bytes -= n;
	}
}

// A socket over which both sides speak NVMe/TCP.
static int opened(const char *address, int port) {
	struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons(port)};
	if (inet_pton(AF_INET, address, &to.sin_addr) != 1) die("no address");
	int s = socket(AF_INET, SOCK_STREAM, 0);
	if (s < 0 || connect(s, (struct sockaddr *)&to, sizeof to) != 0) die("connect");
	unsigned char pdu[128] = {ICREQ, 0, 128, 0, 128};
	send_all(s, pdu, sizeof pdu);
	receive(s, pdu, sizeof pdu);
	if (pdu[0] != ICRESP) die("no ICResp");
	return s;
}

// A command, with its data, into `pdu`; gives its length.
static size_t command(unsigned char *pdu, const unsigned char *sqe, const unsigned char *data, size_t bytes) {
	size_t length = 8 + SQE + bytes;
	memset(pdu, 0, 8);
	pdu[0] = COMMAND, pdu[2] = 8 + SQE, pdu[3] = bytes > 0 ? 8 + SQE : 0;
	put(pdu + 4, length, 4);
	memcpy(pdu + 8, sqe, SQE);
	unsigned char *sgl = pdu + 8 + 24;
	if (bytes > 0) put(sgl + 8, bytes, 4), sgl[15] = 0x01; // in the capsule
	else sgl[15] = 0x5a;                                   // by the transport
	pdu[8 + 1] |= 0x40;
	if (bytes > 0) memcpy(pdu + 8 + SQE, data, bytes);
	return length;
}

// The next answer; data that comes before it lies in `data_in`.
static struct answer answered(int s) {
	for (;;) {
		unsigned char head[24];
		receive(s, head, sizeof head);
		if (head[0] == RESPONSE) return (struct answer){get(head + 20, 2), get(head + 22, 2) >> 1 & 0x7ff, get(head + 8, 8)};
		size_t offset = get(head + 12, 4), bytes = get(head + 16, 4), gap = head[3] - sizeof head;
		if (head[0] != DATA || offset + bytes > BLOCK || gap > sizeof head) die("an unexpected PDU");
		unsigned char skipped[24];
		receive(s, skipped, gap);
		receive(s, data_in + offset, bytes);
		if (head[1] & 0x08) return (struct answer){get(head + 8, 2), 0, 0}; // success needs no response
	}
}
static struct answer asked(int s, const unsigned char *sqe, const unsigned char *data, size_t bytes, const char *what) {
	static unsigned char pdu[8 + SQE + BLOCK];
	send_all(s, pdu, command(pdu, sqe, data, bytes));
	struct answer a = answered(s);
	if (a.status != 0) fprintf(stderr, "status %03x: ", a.status), die(what);
	return a;
}

static struct answer joined(int s, int queue, uint16_t controller, const char *nqn, const char *host) {
	unsigned char sqe[SQE] = {FABRICS, [4] = CONNECT}, data[1024] = {0};
	put(sqe + 42, queue, 2), put(sqe + 44, 31, 2), put(sqe + 48, queue == 0 ? 60000 : 0, 4);
	for (int i = 0, n = 0; host[i] != 0 && n < 16; i++) {
		unsigned byte;
		if (host[i] != '-' && sscanf(host + i, "%2x", &byte) == 1) data[n++] = byte, i++;
	}
	put(data + 16, controller, 2);
	snprintf((char *)data + 256, 256, "%s", nqn);
	snprintf((char *)data + 512, 256, "nqn.2014-08.org.nvmexpress:uuid:%s", host);
	return asked(s, sqe, data, sizeof data, "Connect");
}
static void enable(int s) {
	unsigned char sqe[SQE] = {FABRICS, [4] = PROPERTY_SET};
	put(sqe + 44, CC, 4), put(sqe + 48, 0x460001, 8);
	asked(s, sqe, 0, 0, "Property Set");
	unsigned char look[SQE] = {FABRICS, [4] = PROPERTY_GET};
	put(look + 44, CSTS, 4);
	while (!(asked(s, look, 0, 0, "Property Get").result & 1)) usleep(10000);
	unsigned char queues[SQE] = {0x09};
	put(queues + 40, 7, 4);
	asked(s, queues, 0, 0, "Set Features");
}

// Both halves; whether the block was as `old` says.
static int swapped(int s, unsigned nsid, uint64_t lba, const unsigned char *old, const unsigned char *new) {
	static unsigned char pdus[2 * (8 + SQE + BLOCK)];
	unsigned char compare[SQE] = {COMPARE, FIRST, 1}, write[SQE] = {WRITE, SECOND, 2};
	put(compare + 4, nsid, 4), put(write + 4, nsid, 4);
	put(compare + 40, lba, 8), put(write + 40, lba, 8);
	size_t length = command(pdus, compare, old, BLOCK);
	length += command(pdus + length, write, new, BLOCK);
	send_all(s, pdus, length);
	struct answer of_compare = answered(s), of_write = answered(s);
	if (of_compare.id == 1 && of_compare.status == 0 && of_write.status == 0) return 1;
	if (of_compare.id == 1 && of_compare.status == COMPARE_FAILURE) return 0;
	fprintf(stderr, "status %03x and %03x: ", of_compare.status, of_write.status), die("Compare and Write");
	return 0;
}

int main(int argc, char **argv) {
	if (argc != 8) die("ADDRESS PORT NQN HOSTID NSID LBA COUNT");
	const char *address = argv[1], *nqn = argv[3], *host = argv[4];
	int port = atoi(argv[2]), count = atoi(argv[7]), misses = 0;
	unsigned nsid = atoi(argv[5]);
	uint64_t lba = strtoull(argv[6], 0, 10);
	int admin = opened(address, port);
	uint16_t controller = joined(admin, 0, 0xffff, nqn, host).result;
	enable(admin);
	int queue = opened(address, port);
	joined(queue, 1, controller, nqn, host);

	unsigned char read[SQE] = {READ}, new[BLOCK];
	put(read + 4, nsid, 4), put(read + 32, BLOCK, 4), put(read + 40, lba, 8);
	asked(queue, read, 0, 0, "Read");
	for (int done = 0; done < count;) {
		memcpy(new, data_in, BLOCK);
		put(new, get(new, 8) + 1, 8);
		if (swapped(queue, nsid, lba, data_in, new)) memcpy(data_in, new, BLOCK), done++;
		else if (++misses > MISSES_MAX) die("somebody else is always faster");
		else asked(queue, read, 0, 0, "Read");
	}
	printf("%d\n", misses);
	return 0;
}
