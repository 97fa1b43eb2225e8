/** Session that a client names. It is the client's word: use it within one key only. */
export interface ClientSession {
  readonly id: string
  /** Place of the id, such as `header x-session-id` or `body metadata.user_id`. */
  readonly source: string
  /** Agent within the session (a subagent). null: not named. */
  readonly agent: string | null
  /** Session or agent that started this one. null: not named. */
  readonly parent: string | null
}
