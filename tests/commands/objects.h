/*
 * objects.h - objects of a provider that the commands of all releases take. No call has made them.
 */
#ifndef COMMANDS_OBJECTS_H
#define COMMANDS_OBJECTS_H

/* Objects start as 0xa5, so that every byte which a call writes shows. */
static struct ibv_pd pd;
static struct private_mr mr;
static struct ibv_comp_channel channel;
static struct ibv_cq cq;
static union { struct ibv_qp qp; char room[512]; } qp;

/* Sets an object to zero, but for its context. */
#define OF_CONTEXT(object, field) (memset(&(object), 0, sizeof(object)), (object).field = context)

static void common_handles(void)
{
	pd = (struct ibv_pd){.context = context, .handle = 0x101};
	channel = (struct ibv_comp_channel){.context = context, .fd = 33};
	OF_CONTEXT(cq, context);
	cq.handle = 0x104;
	OF_CONTEXT(qp, qp.context);
	qp.qp.handle = 0x106;
	OF_CONTEXT(mr, mr.context);
	mr.mr.handle = 0x10b;
}

#endif
