/** An SSE comment as a heartbeat: clients ignore it, proxies and sockets see that the connection is in use. */
export const HEARTBEAT = new Uint8Array([58, 32, 112, 105, 110, 103, 10, 10])
