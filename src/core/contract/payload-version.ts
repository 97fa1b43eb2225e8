/** Version of the messages between edges and pool states. */
export const PAYLOAD_VERSION = 1
