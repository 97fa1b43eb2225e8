/** Built files of the dashboard, by name. null: no such file. Rejects if it cannot be read. */
export interface AssetFiles {
  (name: string): Promise<Uint8Array<ArrayBuffer> | ReadableStream<Uint8Array> | null>
}
