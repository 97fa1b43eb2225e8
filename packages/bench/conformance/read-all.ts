/** Reads a stream until it ends or breaks, and returns the text so far. */
export async function readAll(stream: NodeJS.ReadableStream): Promise<string> {
  let text = ''
  try {
    for await (const piece of stream) text += String(piece)
  } catch {
    // Cut: the received text counts.
  }
  return text
}
