/**
 * Raised with every change by which the same records make other documents, so that of two versions that run beside each
 * other only the newer one pushes: each would undo what the other delivers.
 */
export const documentsVersion = 1;
