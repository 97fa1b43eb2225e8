/** Version of the messages between gateways and pool states. */
export const PAYLOAD_VERSION = 1
