// uring-admin CONTROLLER: many Identify Controller commands at once through io_uring's passthrough; each has to give what an ioctl gives.
// For cases/92-blk-admin.sh; `run` builds it, statically, with no library for io_uring.
#include <errno.h>
#include <fcntl.h>
#include <linux/io_uring.h>
#include <linux/nvme_ioctl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { DEPTH = 32, LENGTH = 4096, IDENTIFY = 0x06, CONTROLLER = 0x01 };
static char wanted[LENGTH], got[DEPTH][LENGTH];

static int failed(const char *what) { perror(what); return 1; }

int main(int argc, char **argv) {
	if (argc != 2) return 2;
	int device = open(argv[1], O_RDONLY);
	if (device < 0) return failed("open");
	struct nvme_passthru_cmd plain = {.opcode = IDENTIFY, .addr = (unsigned long)wanted, .data_len = LENGTH, .cdw10 = CONTROLLER};
	if (ioctl(device, NVME_IOCTL_ADMIN_CMD, &plain) != 0) return failed("ioctl");

	struct io_uring_params p = {.flags = IORING_SETUP_SQE128 | IORING_SETUP_CQE32};
	int ring = syscall(SYS_io_uring_setup, DEPTH, &p);
	if (ring < 0) return failed("io_uring_setup");
	char *sq = mmap(0, p.sq_off.array + p.sq_entries * 4, PROT_READ | PROT_WRITE, MAP_SHARED, ring, IORING_OFF_SQ_RING);
	char *cq = mmap(0, p.cq_off.cqes + p.cq_entries * 32, PROT_READ | PROT_WRITE, MAP_SHARED, ring, IORING_OFF_CQ_RING);
	char *entries = mmap(0, p.sq_entries * 128, PROT_READ | PROT_WRITE, MAP_SHARED, ring, IORING_OFF_SQES);
	if (sq == MAP_FAILED || cq == MAP_FAILED || entries == MAP_FAILED) return failed("mmap");

	for (unsigned i = 0; i < DEPTH; i++) {
		struct io_uring_sqe *e = (struct io_uring_sqe *)(entries + i * 128);
		memset(e, 0, 128);
		e->opcode = IORING_OP_URING_CMD, e->fd = device, e->cmd_op = NVME_URING_CMD_ADMIN, e->user_data = i;
		struct nvme_uring_cmd *c = (struct nvme_uring_cmd *)e->cmd;
		c->opcode = IDENTIFY, c->cdw10 = CONTROLLER, c->addr = (unsigned long)got[i], c->data_len = LENGTH;
		((unsigned *)(sq + p.sq_off.array))[i] = i;
	}
	atomic_store((_Atomic unsigned *)(sq + p.sq_off.tail), DEPTH);
	if (syscall(SYS_io_uring_enter, ring, DEPTH, DEPTH, IORING_ENTER_GETEVENTS, 0, 0) != DEPTH) return failed("io_uring_enter");

	unsigned done = atomic_load((_Atomic unsigned *)(cq + p.cq_off.tail)), mask = *(unsigned *)(cq + p.cq_off.ring_mask);
	if (done != DEPTH) return fprintf(stderr, "%u of %d have ended\n", done, DEPTH), 1;
	for (unsigned n = 0; n < done; n++) {
		struct io_uring_cqe *c = (struct io_uring_cqe *)(cq + p.cq_off.cqes + (n & mask) * 32);
		if (c->res != 0) return fprintf(stderr, "command %llu: %d\n", (unsigned long long)c->user_data, c->res), 1;
		if (memcmp(got[c->user_data], wanted, LENGTH) != 0) return fprintf(stderr, "command %llu got other data\n", (unsigned long long)c->user_data), 1;
	}
	printf("%u commands gave the same %d bytes\n", done, LENGTH);
	return 0;
}
