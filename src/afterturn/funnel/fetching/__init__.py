"""What a provider only tells of, fetched: mail out of S3 and Outlook, the certificates of SNS."""
