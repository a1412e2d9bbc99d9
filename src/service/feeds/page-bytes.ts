/**
 * Text as it is sent, in pieces that are used again once they were sent. A page is over a megabyte, and one that is not
 * used any more is only noticed when the garbage collector looks at old objects: with some clients that read at the same
 * time, 30 MB of sent pages would wait for that.
 */

/** As much as the system takes at once. */
const pieceBytes = 64 * 1024;
/** Pieces that are kept for the next pages: as many as a few long pages have. */
const spareMost = 64;
/** Only pieces of `pieceBytes`. What they hold is overwritten before it is sent. */
const spare: Buffer[] = [];

export interface PageBytes {
  write(text: string): void;
  /** What was written. Call it once, at the end. */
  pieces(): Buffer[];
  /** Lets the pieces be used again. Call it once, when nobody reads them any more; without it they are garbage. */
  release(): void;
}

export function createPageBytes(): PageBytes {
  const whole: Buffer[] = [];
  const written: Buffer[] = [];
  let piece: Buffer = Buffer.alloc(0);
  let length = 0;
  const endPiece = () => {
    if (length > 0) written.push(piece.subarray(0, length));
    length = 0;
  };
  return {
    write(text) {
      // UTF-8 takes at most three bytes for each UTF-16 unit.
      const most = 3 * text.length;
      if (length + most > piece.length) {
        endPiece();
        piece = most > pieceBytes ? Buffer.allocUnsafe(most) : (spare.pop() ?? Buffer.allocUnsafe(pieceBytes));
        if (piece.length === pieceBytes) whole.push(piece);
      }
      length += piece.write(text, length);
    },
    pieces: () => {
      endPiece();
      return written;
    },
    release: () => {
      spare.push(...whole.splice(0, spareMost - spare.length));
    },
  };
}
