/** HTTP client for services other than engines: a trace collector, a webhook, an issuer of tokens. */
export interface ServiceClient {
  /** Posts a document. Resolves with the status; the body is not read. Rejects if the service is unreachable. */
  post(url: string, headers: Readonly<Record<string, string>>, body: string): Promise<number>
  /** GET of a small JSON document. Rejects if the service is unreachable. */
  fetchJson(url: string): Promise<unknown>
}
